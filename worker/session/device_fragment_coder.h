// A FragmentCoder on the CUDA device that trains. TakeSnapshot only enqueues a copy on the
// training's stream; the codes come to pinned host memory, out of which they are sent.
//
// Device memory, of owned elements: 4 B of snapshot while a round is under way, and with error
// feedback 4 B for good; the snapshot becomes the next feedback. Besides a bounded staging area,
// shared by all fragments. The outer parameters stay in host memory, where pulls are decoded and
// verified, and pass through the staging area when they are needed: they change once a round, so
// keeping them on the device would not save a transfer.
//
// When memory is short a round is coded on the host, where it makes the same bytes: one warning,
// and the next round tries the device again. Training thus never ends for want of memory that only
// makes it faster, and no setting has to say in advance how much there is.
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
  // Of a replica given to TakeSnapshot that has DeviceParameters they lie on the device of `device`;
  // what has none (masters in host memory) is coded on the host. `warn` gets the warning, from any of
  // the threads that call.
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
  // Values of the local array in one of two places; in neither: zeros.
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
  Values snapshot_, feedback_, next_feedback_;  // As in HostFragmentCoder.
  bool has_snapshot_ = false;
  bool warned_ = false;
};

}  // namespace longhaul::session
