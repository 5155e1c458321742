#include "tests/testing/emulated_gather_kernels.h"

#include "absl/functional/function_ref.h"
#include "tests/testing/cuda_emulation.h"

// The emulation must come before the kernels.
#include "worker/graph/cuda/gather_kernels-inl.h"
#include "worker/graph/cuda/sage_kernels-inl.h"

namespace longhaul::testing_support {
namespace {

absl::Status RunAtOnce(uint32_t blocks, int threads, absl::FunctionRef<void()> kernel) {
  static auto* const one_at_a_time = new absl::Mutex;
  absl::MutexLock lock(one_at_a_time);
  return cuda_emulation::Launch(static_cast<int>(blocks), threads,
                                cuda_emulation::Order::kBackwards, kernel);
}

template <typename Job>
absl::Status RunSage(const Job& job) {
  const auto launch = cuda::SageLaunchOf(job);
  return RunAtOnce(launch.blocks, cuda::kSageThreads, [&] { launch.kernel(job); });
}

}  // namespace

absl::Status EmulatedGatherKernels::Gather(const GatherJob& job, void*) const {
  const cuda::GatherLaunch launch = cuda::GatherLaunchOf(job);
  return RunAtOnce(launch.blocks, cuda::kGatherThreads,
                   [&] { launch.kernel(job, launch.shape, launch.groups); });
}

absl::Status EmulatedSageKernels::Aggregate(const AggregateJob& job, void*) const {
  return RunSage(job);
}

absl::Status EmulatedSageKernels::AggregateBack(const AggregateBackJob& job, void*) const {
  return RunSage(job);
}

absl::Status EmulatedSageKernels::Dropout(const DropoutJob& job, void*) const {
  return RunSage(job);
}

absl::StatusOr<const void*> EmulatedGatherKernels::Register(const void* memory,
                                                            int64_t bytes) const {
  absl::MutexLock lock(&mutex_);
  int64_t sum = bytes;
  for (const auto& [begin, size] : registered_) {
    if (static_cast<const char*>(memory) < static_cast<const char*>(begin) + size &&
        static_cast<const char*>(begin) < static_cast<const char*>(memory) + bytes)
      return absl::FailedPreconditionError(
          "part or all of the requested memory range is already mapped");
    sum += size;
  }
  if (registered_max_ >= 0 && sum > registered_max_)
    return absl::FailedPreconditionError("too much registered memory");
  registered_[memory] = bytes;
  return memory;
}

absl::Status EmulatedGatherKernels::Unregister(const void* memory) const {
  absl::MutexLock lock(&mutex_);
  if (registered_.erase(memory) == 1) return absl::OkStatus();
  return absl::InternalError("this memory is not registered");
}

int EmulatedGatherKernels::registered() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(registered_.size());
}

}  // namespace longhaul::testing_support
