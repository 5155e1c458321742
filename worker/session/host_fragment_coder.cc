#include "worker/session/host_fragment_coder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"

namespace longhaul::session {

void ContributionTotals::Add(double error_energy, double signal_energy) {
  error_ += error_energy;
  signal_ += signal_energy;
}

void ContributionTotals::Write(bool feedback, CodedContribution& contribution) const {
  contribution.nmse = signal_ > 0 ? error_ / signal_ : 0;
  contribution.feedback_norm = feedback ? std::sqrt(error_) : 0;
}

absl::Status CodingError(const FragmentMap& map, const SegmentRef& segment,
                         const absl::Status& status) {
  return WithContext(absl::StrFormat("coding blocks from %d of fragment '%s'", segment.first_block,
                                     map.layout().name),
                     status);
}

absl::StatusOr<std::shared_ptr<CodedContribution>> CodeOnHost(
    const FragmentMap& map, const Codec& codec, uint64_t noise_key, bool seed,
    absl::Span<const float> outer, absl::Span<const float> feedback, absl::Span<float> snapshot) {
  int64_t bytes = 0;
  for (const SegmentRef& segment : map.segments()) bytes += codec.PayloadBytes(segment.elements);
  auto result = std::make_shared<CodedContribution>();
  result->blocks = {map.segments(), AlignedBuffer(bytes)};
  ContributionTotals totals;
  int64_t offset = 0;
  for (SegmentRef& segment : result->blocks.segments) {
    const auto part = [&](auto values) {
      return values.subspan(map.LocalOffset(segment), segment.elements);
    };
    EncodeInput input = {part(snapshot)};
    if (!seed) input = {part(outer), part(snapshot)};
    if (!feedback.empty()) input.error = part(feedback);
    const auto out =
        result->blocks.payload.span().subspan(offset, codec.PayloadBytes(segment.elements));
    const auto coded = codec.Encode(input, feedback.empty() ? absl::Span<float>() : part(snapshot),
                                    out, {.key = noise_key, .first_block = segment.first_block});
    if (!coded.ok()) return CodingError(map, segment, coded.status());
    segment.base_exponent = coded->base_exponent;
    offset += out.size();
    totals.Add(coded->error_energy, coded->signal_energy);
  }
  totals.Write(!feedback.empty(), *result);
  return result;
}

HostFragmentCoder::HostFragmentCoder(const Options& options)
    : options_(options),
      spare_(options.spare != nullptr ? options.spare : std::make_shared<SpareBuffers>()) {
  if (options_.error_feedback) feedback_.resize(options_.map->elements());
}

absl::Status HostFragmentCoder::TakeSnapshot(Replica& replica) {
  if (!has_snapshot_) snapshot_ = spare_->Take(options_.map->elements());
  has_snapshot_ = true;
  return options_.map->Read(replica, absl::MakeSpan(snapshot_));
}

absl::StatusOr<std::shared_ptr<CodedContribution>> HostFragmentCoder::Code(
    RoundKind kind, uint64_t noise_key, absl::Span<const float> outer) {
  has_snapshot_ = false;
  const bool seed = kind == RoundKind::kSeed;
  const bool feedback = options_.error_feedback && !seed;
  std::vector<float> lost = std::exchange(snapshot_, {});
  LH_ASSIGN_OR_RETURN(
      auto coded,
      CodeOnHost(*options_.map, seed ? *options_.exact : *options_.up, noise_key, seed, outer,
                 feedback ? absl::MakeConstSpan(feedback_) : absl::Span<const float>(),
                 absl::MakeSpan(lost)));
  if (feedback) {
    next_feedback_ = std::move(lost);
  } else {
    spare_->Give(std::move(lost));
  }
  return coded;
}

void HostFragmentCoder::Commit(bool contributed) {
  if (contributed && !next_feedback_.empty())
    spare_->Give(std::exchange(feedback_, std::exchange(next_feedback_, {})));
  next_feedback_ = {};
}

void HostFragmentCoder::Reset() { std::fill(feedback_.begin(), feedback_.end(), 0.0f); }

absl::Status HostFragmentCoder::ReadFeedback(absl::Span<float> out) {
  std::copy(feedback_.begin(), feedback_.end(), out.begin());
  return absl::OkStatus();
}

absl::Status HostFragmentCoder::WriteFeedback(absl::Span<const float> values) {
  feedback_.assign(values.begin(), values.end());
  return absl::OkStatus();
}

}  // namespace longhaul::session
