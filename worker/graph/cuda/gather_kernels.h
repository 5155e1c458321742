// Gathers rows of a feature table on a CUDA device, from its own memory or straight from host
// memory (zero-copy). An interface: the CUDA part is a module that is loaded if there is a device;
// tests have an emulation that runs the kernel on the CPU at once.
//
// Thread-safe. A kernel runs after the works of the stream that the caller gives; nothing waits but
// Register and Unregister. INTERNAL: the launch failed.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// Row i of `out` becomes row ids[i] of `table`, or that of out place places[i] if there are places.
// All pointers are for kernels, and valid until the kernel has run. The ids are in range.
struct GatherJob {
  const uint8_t* table = nullptr;
  int64_t row_bytes = 0;
  const int64_t* ids = nullptr;
  const int32_t* places = nullptr;
  int64_t count = 0;
  uint8_t* out = nullptr;
  // The most threads that work at once, so that other kernels have room beside it: enough to fill a
  // link with requests is a small part of a device.
  int32_t threads = 10240;
};

class GatherKernels {
 public:
  virtual ~GatherKernels() = default;

  // `stream`: a cudaStream_t of the thread's current device. A job without rows does nothing.
  virtual absl::Status Gather(const GatherJob& job, void* stream) const = 0;

  // Lets kernels of the current device read, or with `written` also write, host memory, which stays
  // where it is and must not be freed before Unregister. Returns its address for kernels. Takes
  // about as long as a copy of it. FAILED_PRECONDITION: it cannot be registered (a limit of locked
  // memory, a mapping of a file, a range that is registered already); the message says why.
  virtual absl::StatusOr<void*> Register(void* memory, int64_t bytes, bool written) const = 0;
  virtual absl::Status Unregister(void* memory) const = 0;
};

// The kernels of the module longhaul_cuda_gather, which stay until the process ends. Errors and
// `folder`: see LoadCudaFunction.
absl::StatusOr<const GatherKernels*> LoadCudaGatherKernels(const std::string& folder = "");

}  // namespace longhaul
