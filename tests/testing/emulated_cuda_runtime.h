// A DeviceRuntime whose kernels run on the CPU (cuda_emulation.h). What is enqueued for the codec
// runs as late as it may, in Wait, so that a test notices memory that is used or freed too early;
// what is enqueued for the training runs at once. Each launch runs its threads in the other order.
#pragma once

#include <deque>
#include <functional>
#include <set>

#include "common/codec/cuda/device_runtime.h"
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
  void set_free_device_bytes(int64_t bytes) { free_device_bytes_ = bytes; }
  int64_t device_bytes() const { return device_bytes_; }  // Allocated now.
  int launches() const { return launches_; }
  int waits() const { return waits_; }

 private:
  absl::Status Enqueue(Queue queue, std::function<absl::Status()> work);
  cuda_emulation::Order NextOrder();

  std::deque<std::function<absl::Status()>> codec_queue_;
  std::set<std::pair<void*, int64_t>> device_blocks_;
  int64_t free_device_bytes_ = int64_t{1} << 40, device_bytes_ = 0;
  int launches_ = 0, waits_ = 0;
};

}  // namespace longhaul::testing_support
