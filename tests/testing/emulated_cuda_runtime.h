// A DeviceRuntime whose kernels run on the CPU (cuda_emulation.h). Works of the codec's queue run
// as late as possible, in Wait, so that a test notices memory that is used or freed too early.
// Works of the training's queue run at once. Thread-safe; kernels run one at a time in the whole
// process. Each launch runs its threads in the opposite order of the last one.
#pragma once

#include <deque>
#include <functional>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/codec/cuda/device_runtime.h"
#include "common/codec/cuda/segment_kernels.h"
#include "tests/testing/cuda_emulation.h"

namespace longhaul::testing_support {

class EmulatedCudaRuntime : public DeviceRuntime {
 public:
  ~EmulatedCudaRuntime() override;

  absl::StatusOr<void*> Allocate(Memory kind, int64_t bytes) override;
  void Free(Memory kind, void* memory) override;
  absl::Status Copy(Queue queue, void* to, const void* from, int64_t bytes) override;
  absl::Status Zero(Queue queue, void* to, int64_t bytes) override;
  absl::Status FollowTraining() override { return absl::OkStatus(); }
  absl::Status Encode(const CodecOptions& options, const cuda::EncodeJob* jobs,
                      cuda::EncodeReport* reports, int count) override;
  absl::Status Decode(CodecKind kind, const cuda::DecodeJob* jobs, int count, float weight,
                      bool accumulate) override;
  absl::Status Wait() override;

  // How much device memory is left.
  void set_free_device_bytes(int64_t bytes);
  // Allocated now.
  int64_t device_bytes() const;
  int launches() const;
  int waits() const;

 private:
  absl::Status Enqueue(Queue queue, std::function<absl::Status()> work);
  absl::Status EnqueueKernel(int blocks, std::function<void()> kernel);

  mutable absl::Mutex mutex_;
  std::deque<std::function<absl::Status()>> codec_queue_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<void*, int64_t>> device_blocks_ ABSL_GUARDED_BY(mutex_);
  int64_t free_device_bytes_ ABSL_GUARDED_BY(mutex_) = int64_t{1} << 40;
  int64_t device_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int launches_ ABSL_GUARDED_BY(mutex_) = 0, waits_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The kernels alone, which run at once. Thread-safe; one at a time in the whole process.
class EmulatedSegmentKernels : public SegmentKernels {
 public:
  absl::Status Encode(const CodecOptions& options, const cuda::EncodeJob* jobs,
                      cuda::EncodeReport* reports, int count, void* stream) const override;
  absl::Status Decode(CodecKind kind, const cuda::DecodeJob* jobs, int count,
                      void* stream) const override;
  absl::Status Reduce(CodecKind kind, const cuda::ReduceJob* jobs, cuda::EncodeReport* reports,
                      int count, void* stream) const override;
};

}  // namespace longhaul::testing_support
