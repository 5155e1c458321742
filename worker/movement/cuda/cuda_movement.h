// Movement with CUDA: a stream for each queue, events as tokens, pinned host memory. It is part of
// the shared module longhaul_cuda_movement_streams, which is loaded only where a device is present
// (cuda_movement_module.h). Nothing else of the program refers to it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/patience.h"
#include "worker/movement/movement.h"

namespace longhaul {

struct CudaMovementOptions {
  int device = 0;
  // The cudaStream_t of the model's kernels (Fork, Join). Null: the default stream.
  void* caller_stream = nullptr;
  // The cudaStream_t of Compute, which must outlive the object. Null: the object makes one.
  void* compute_stream = nullptr;
  // The longest that Wait blocks.
  Patience timeout = absl::Minutes(5);
};

// FAILED_PRECONDITION: no CUDA driver or device. RESOURCE_EXHAUSTED, INTERNAL: CUDA's (CudaStatus).
absl::StatusOr<std::shared_ptr<Movement>> MakeCudaMovement(const CudaMovementOptions& options);

}  // namespace longhaul

// The only symbol that is looked up in the module.
extern "C" {
using LonghaulMakeCudaMovement =
    absl::StatusOr<std::shared_ptr<longhaul::Movement>>(const longhaul::CudaMovementOptions&);
}
inline constexpr char kLonghaulMakeCudaMovement[] = "longhaul_make_cuda_movement";
