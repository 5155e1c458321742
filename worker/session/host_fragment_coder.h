// A FragmentCoder in host memory. It takes 4 B of feedback (if that is on) for each owned element,
// and during a round 4 B of snapshot, which becomes the next feedback.
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
  // e after the last round that counted. Empty: error feedback is off.
  std::vector<float> feedback_;
  // e, if the contribution that was coded last counts.
  std::vector<float> next_feedback_;
  std::vector<float> snapshot_;
  // Needed because a rank may own no element of a fragment: sizes do not tell.
  bool has_snapshot_ = false;
};

// Codes outer - snapshot + feedback, or with `seed` the snapshot. If there is feedback, `snapshot`
// then holds the coding error, which is the next feedback. Errors: CodingError.
absl::StatusOr<std::shared_ptr<CodedContribution>> CodeOnHost(
    const FragmentMap& map, const Codec& codec, uint64_t noise_key, bool seed,
    absl::Span<const float> outer, absl::Span<const float> feedback, absl::Span<float> snapshot);

// Sums the results of a contribution's segments, for CodedContribution's nmse and feedback_norm.
class ContributionTotals {
 public:
  void Add(double error_energy, double signal_energy);
  void Write(bool feedback, CodedContribution& contribution) const;

 private:
  double error_ = 0, signal_ = 0;
};

// Adds the place of the segment to the error of a codec.
absl::Status CodingError(const FragmentMap& map, const SegmentRef& segment,
                         const absl::Status& status);

}  // namespace longhaul::session
