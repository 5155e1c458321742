// A FragmentCoder on the CUDA device that trains. TakeSnapshot only enqueues a copy on the
// training's stream. The codes come to pinned host memory, from which they are sent.
//
// Device memory for each owned element: 4 B of snapshot during a round, and with error feedback 4 B
// all the time; the snapshot becomes the next feedback. All fragments share one bounded staging
// area. The outer parameters stay in host memory, where pulls are decoded and verified, and pass
// through the staging area. They change once a round, so keeping them on the device would save no
// transfer.
//
// When device memory is short, the round is coded on the host, with the same bytes and one warning;
// the next round tries the device again. So training does not fail for lack of memory that only
// makes it faster, and no setting has to reserve that memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/codec/cuda/device_codec.h"
#include "worker/session/fragment_coder.h"

namespace longhaul::session {

class DeviceFragmentCoder : public FragmentCoder {
 public:
  // The DeviceParameters of the replicas given to TakeSnapshot must lie on the device of `device`.
  // A replica without them (masters in host memory) is coded on the host. `warn` receives the
  // warning, on whichever thread calls the coder.
  DeviceFragmentCoder(const Options& options, std::shared_ptr<DeviceCodec> device,
                      std::function<void(const std::string&)> warn);

  absl::Status TakeSnapshot(Replica& replica) override;
  bool has_snapshot() const override { return has_snapshot_; }
  absl::StatusOr<std::shared_ptr<CodedContribution>> Code(RoundKind kind, uint64_t noise_key,
                                                          absl::Span<const float> outer) override;
  void Commit(bool contributed) override;
  void Reset() override;
  absl::Status ReadFeedback(absl::Span<float> out) override;
  absl::Status WriteFeedback(absl::Span<const float> values) override;

 private:
  // Values of the local array, on the device or in host memory. In neither: they are zero.
  struct Values {
    DeviceFloats device;
    std::vector<float> host;
  };

  absl::Status EnqueueSnapshot(Replica& replica, float* to);
  absl::StatusOr<std::shared_ptr<CodedContribution>> CodeOnDevice(const Codec& codec, bool seed,
                                                                  bool feedback, uint64_t noise_key,
                                                                  absl::Span<const float> outer,
                                                                  const Values& snapshot);
  absl::Status BringToDevice(Values& values);
  absl::Status BringToHost(Values& values);
  void WarnOnce(const absl::Status& status);

  const Options options_;
  const std::shared_ptr<DeviceCodec> device_;
  const std::function<void(const std::string&)> warn_;
  const int64_t elements_;
  // As in HostFragmentCoder.
  Values snapshot_, feedback_, next_feedback_;
  bool has_snapshot_ = false;
  bool warned_ = false;
};

}  // namespace longhaul::session
