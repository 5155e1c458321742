// The kernels of graph models (worker/graph/cuda), run on the CPU at once. Registered memory keeps
// its address; its registration is counted, and a range twice is refused as CUDA does. Thread-safe;
// one kernel at a time in the whole process.
#pragma once

#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/graph/cuda/gather_kernels.h"
#include "worker/graph/cuda/sage_kernels.h"

namespace longhaul::testing_support {

class EmulatedGatherKernels : public GatherKernels {
 public:
  // `registered_max`: more bytes at once are refused, as by a limit of locked memory. -1: none.
  explicit EmulatedGatherKernels(int64_t registered_max = -1) : registered_max_(registered_max) {}

  absl::Status Gather(const GatherJob& job, void* stream) const override;
  absl::StatusOr<const void*> Register(const void* memory, int64_t bytes) const override;
  absl::Status Unregister(const void* memory) const override;
  absl::StatusOr<int64_t> FreeBytes() const override { return int64_t{1} << 40; }
  int registered() const;

 private:
  const int64_t registered_max_;
  mutable absl::Mutex mutex_;
  mutable std::map<const void*, int64_t> registered_ ABSL_GUARDED_BY(mutex_);
};

class EmulatedSageKernels : public SageKernels {
 public:
  absl::Status Aggregate(const AggregateJob& job, void* stream) const override;
  absl::Status AggregateBack(const AggregateBackJob& job, void* stream) const override;
  absl::Status Dropout(const DropoutJob& job, void* stream) const override;
};

}  // namespace longhaul::testing_support
