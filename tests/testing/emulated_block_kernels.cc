#include "tests/testing/emulated_block_kernels.h"

#include "absl/synchronization/mutex.h"
#include "tests/testing/cuda_emulation.h"

// The emulation must come before the kernels.
#include "worker/kernels/cuda/block_kernels-inl.h"

namespace longhaul::testing_support {
namespace {

template <typename Job>
absl::Status RunAtOnce(const cuda::KernelLaunch<Job>& launch, const Job& job) {
  static auto* const one_at_a_time = new absl::Mutex;
  absl::MutexLock lock(one_at_a_time);
  return cuda_emulation::Launch(static_cast<int>(launch.blocks), cuda::kBlockThreads,
                                cuda_emulation::Order::kBackwards, [&] { launch.kernel(job); });
}

}  // namespace

absl::Status EmulatedBlockKernels::Rotate(const RotateJob& job, void*) const {
  return RunAtOnce(cuda::RotateLaunch(job), job);
}

absl::Status EmulatedBlockKernels::GateForward(const GateJob& job, void*) const {
  return RunAtOnce(cuda::GateForwardLaunch(job), job);
}

absl::Status EmulatedBlockKernels::GateBackward(const GateJob& job, void*) const {
  return RunAtOnce(cuda::GateBackwardLaunch(job), job);
}

}  // namespace longhaul::testing_support
