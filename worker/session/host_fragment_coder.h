// A FragmentCoder in host memory: owned elements x 4 B of feedback (if on), and while a round is
// under way 4 B of snapshot, which becomes the next feedback.
#pragma once

#include "worker/session/fragment_coder.h"

namespace longhaul::session {

class HostFragmentCoder : public FragmentCoder {
 public:
  explicit HostFragmentCoder(const Options& options);

  absl::Status TakeSnapshot(Replica& replica) override;
  bool has_snapshot() const override { return has_snapshot_; }
  absl::StatusOr<std::shared_ptr<CodedContribution>> Code(RoundKind kind, uint64_t noise_key,
                                                          absl::Span<const float> outer) override;
  void Commit(bool contributed) override;
  void Reset() override;
  absl::Status ReadFeedback(absl::Span<float> out) override;
  absl::Status WriteFeedback(absl::Span<const float> values) override;

 private:
  const Options options_;
  const std::shared_ptr<SpareBuffers> spare_;
  std::vector<float> feedback_;       // e of the last round that counted. Empty: off.
  std::vector<float> next_feedback_;  // e if the contribution that was coded last counts.
  std::vector<float> snapshot_;
  bool has_snapshot_ = false;  // A rank may own nothing of a fragment: sizes do not tell.
};

// The coding itself. `feedback`: empty for none, else `snapshot` becomes what is lost.
absl::StatusOr<std::shared_ptr<CodedContribution>> CodeOnHost(
    const FragmentMap& map, const Codec& codec, uint64_t noise_key, bool seed,
    absl::Span<const float> outer, absl::Span<const float> feedback, absl::Span<float> snapshot);

// A contribution of so many payload bytes, with the sums of its blocks' results.
class ContributionTotals {
 public:
  void Add(double error_energy, double signal_energy);
  void Write(bool feedback, CodedContribution& contribution) const;

 private:
  double error_ = 0, signal_ = 0;
};

// The error of Code for a segment that cannot be coded.
absl::Status CodingError(const FragmentMap& map, const SegmentRef& segment,
                         const absl::Status& status);

}  // namespace longhaul::session
