#include "tests/testing/emulated_gather_kernels.h"

#include "tests/testing/cuda_emulation.h"

// The emulation must come before the kernels.
#include "worker/graph/cuda/gather_kernels-inl.h"

namespace longhaul::testing_support {

absl::Status EmulatedGatherKernels::Gather(const GatherJob& job, void*) const {
  static auto* const one_at_a_time = new absl::Mutex;
  absl::MutexLock lock(one_at_a_time);
  const cuda::GatherLaunch launch = cuda::GatherLaunchOf(job);
  return cuda_emulation::Launch(static_cast<int>(launch.blocks), cuda::kGatherThreads,
                                cuda_emulation::Order::kBackwards,
                                [&] { launch.kernel(job, launch.shape, launch.groups); });
}

absl::StatusOr<void*> EmulatedGatherKernels::Register(void* memory, int64_t bytes, bool) const {
  absl::MutexLock lock(&mutex_);
  int64_t sum = bytes;
  for (const auto& [begin, size] : registered_) {
    if (static_cast<char*>(memory) < static_cast<char*>(begin) + size &&
        static_cast<char*>(begin) < static_cast<char*>(memory) + bytes)
      return absl::FailedPreconditionError(
          "part or all of the requested memory range is already mapped");
    sum += size;
  }
  if (registered_max_ >= 0 && sum > registered_max_)
    return absl::FailedPreconditionError("too much registered memory");
  registered_[memory] = bytes;
  return memory;
}

absl::Status EmulatedGatherKernels::Unregister(void* memory) const {
  absl::MutexLock lock(&mutex_);
  if (registered_.erase(memory) == 1) return absl::OkStatus();
  return absl::InternalError("this memory is not registered");
}

int EmulatedGatherKernels::registered() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(registered_.size());
}

}  // namespace longhaul::testing_support
