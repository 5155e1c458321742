// The kernel that gathers features (worker/graph/cuda), run on the CPU at once. Registered memory
// keeps its address; its registration is counted, and a range twice is refused as CUDA does.
// Thread-safe; one kernel at a time in the whole process.
#pragma once

#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/graph/cuda/gather_kernels.h"

namespace longhaul::testing_support {

class EmulatedGatherKernels : public GatherKernels {
 public:
  // `registered_max`: more bytes at once are refused, as by a limit of locked memory. -1: none.
  explicit EmulatedGatherKernels(int64_t registered_max = -1) : registered_max_(registered_max) {}

  absl::Status Gather(const GatherJob& job, void* stream) const override;
  absl::StatusOr<void*> Register(void* memory, int64_t bytes, bool written) const override;
  absl::Status Unregister(void* memory) const override;
  int registered() const;

 private:
  const int64_t registered_max_;
  mutable absl::Mutex mutex_;
  mutable std::map<void*, int64_t> registered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::testing_support
