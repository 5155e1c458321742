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
  // link with requests is a small part of a device, whose own memory takes all of it.
  static constexpr int32_t kThreadsOfLink = 10240, kThreadsOfDevice = 1 << 18;
  int32_t threads = kThreadsOfLink;
  // Accesses begin at lines of memory (common/graph/gather_index.h). False: at the row, to compare
  // with.
  bool aligned = true;
};

class GatherKernels {
 public:
  virtual ~GatherKernels() = default;

  // `stream`: a cudaStream_t of the thread's current device. A job without rows does nothing.
  virtual absl::Status Gather(const GatherJob& job, void* stream) const = 0;

  // Lets kernels of the current device read host memory, which stays where it is and must not be
  // freed before Unregister; it may be a read-only mapping of a file. Returns its address for
  // kernels. Takes about as long as a copy of it. FAILED_PRECONDITION: it cannot be registered (a
  // limit of locked memory, a device that cannot read such a mapping, a range that is registered
  // already); the message says why.
  virtual absl::StatusOr<const void*> Register(const void* memory, int64_t bytes) const = 0;
  virtual absl::Status Unregister(const void* memory) const = 0;
  // Of the memory of the current device.
  virtual absl::StatusOr<int64_t> FreeBytes() const = 0;
};

// The kernels of the module longhaul_cuda_gather, which stay until the process ends. Errors and
// `folder`: see LoadCudaFunction.
absl::StatusOr<const GatherKernels*> LoadCudaGatherKernels(const std::string& folder = "");

}  // namespace longhaul
