// The parts of a transformer's block that compute each element by itself, on a CUDA device: each is
// one pass over memory, where PyTorch's operators take several. An interface: the CUDA part is a
// module that is loaded if there is a device; tests have an emulation that runs the kernels on the
// CPU at once.
//
// Thread-safe. Nothing waits: a kernel runs after the works of the stream that the caller gives.
// All pointers are device memory, which must stay valid until then. Elements are float32 or
// bfloat16; arithmetic is float32, and each result is rounded once, to nearest even. INTERNAL: the
// launch failed.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

enum class BlockElement { kFloat32, kBFloat16 };

// Rotary position embedding: worker/kernels/rotary.h has the equation. `out` may be `x`.
struct RotateJob {
  BlockElement element = BlockElement::kFloat32;
  const void* x = nullptr;
  void* out = nullptr;
  // [positions, width]. The first half of each row is read.
  const float *cos = nullptr, *sin = nullptr;
  // x and out are [batches, heads, positions, width]. The elements of a head are adjacent; the
  // others are so many elements apart. `width` is even.
  int32_t batches = 0, heads = 0, positions = 0, width = 0;
  int64_t batch_stride = 0, head_stride = 0, position_stride = 0;
  // By the opposite angle: the gradient of out becomes that of x.
  bool back = false;
};

// SwiGLU's product h = silu(gate) up: worker/kernels/swiglu.h has the equation. The arrays have
// `elements` elements each and do not overlap.
struct GateJob {
  BlockElement element = BlockElement::kFloat32;
  int64_t elements = 0;
  const void *gate = nullptr, *up = nullptr;
  // Forward writes h. Backward reads its gradient and writes those of gate and up.
  void* h = nullptr;
  const void* h_gradient = nullptr;
  void *gate_gradient = nullptr, *up_gradient = nullptr;
};

class BlockKernels {
 public:
  virtual ~BlockKernels() = default;

  // `stream`: a cudaStream_t of the thread's current device. Jobs without elements do nothing.
  virtual absl::Status Rotate(const RotateJob& job, void* stream) const = 0;
  virtual absl::Status GateForward(const GateJob& job, void* stream) const = 0;
  virtual absl::Status GateBackward(const GateJob& job, void* stream) const = 0;
};

// The kernels of the module longhaul_cuda_blocks, which stay until the process ends. Errors and
// `folder`: see LoadCudaFunction.
absl::StatusOr<const BlockKernels*> LoadCudaBlockKernels(const std::string& folder = "");

}  // namespace longhaul
