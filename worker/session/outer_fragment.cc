#include "worker/session/outer_fragment.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longhaul::session {

namespace {

absl::Status NotMerged() {
  return absl::FailedPreconditionError("a commit came before the one before it was merged");
}

}  // namespace

OuterFragment::OuterFragment(FragmentMap map, Options options)
    : map_(std::move(map)),
      options_(std::move(options)),
      spare_(options_.spare != nullptr ? options_.spare : std::make_shared<SpareBuffers>()),
      outer_(std::make_shared<std::vector<float>>(map_.elements())) {
  if (options_.error_feedback) feedback_.resize(map_.elements());
}

absl::Status OuterFragment::TakeSnapshot(Replica& replica) {
  absl::MutexLock lock(&mutex_);
  if (!has_snapshot_) snapshot_ = spare_->Take(map_.elements());
  has_snapshot_ = true;
  return map_.Read(replica, absl::MakeSpan(snapshot_));
}

absl::StatusOr<std::shared_ptr<CodedContribution>> OuterFragment::Code(RoundKind kind,
                                                                       uint64_t noise_key) {
  const bool seed = kind == RoundKind::kSeed;
  const Codec& codec = seed ? *options_.exact : *options_.up;
  const bool feedback = options_.error_feedback && !seed;
  int64_t bytes = 0;
  for (const SegmentRef& segment : map_.segments()) bytes += codec.PayloadBytes(segment.elements);
  auto result = std::make_shared<CodedContribution>();
  result->blocks = {map_.segments(), AlignedBuffer(bytes)};
  double error = 0, signal = 0;
  int64_t offset = 0;
  for (SegmentRef& segment : result->blocks.segments) {
    const auto part = [&](std::vector<float>& values) {
      return absl::MakeSpan(values).subspan(map_.LocalOffset(segment), segment.elements);
    };
    EncodeInput input = {part(snapshot_)};
    if (!seed) input = {part(*outer_), part(snapshot_)};
    if (feedback) input.error = part(feedback_);
    const auto out =
        result->blocks.payload.span().subspan(offset, codec.PayloadBytes(segment.elements));
    const auto coded = codec.Encode(input, feedback ? part(snapshot_) : absl::Span<float>(), out,
                                    {.key = noise_key, .first_block = segment.first_block});
    if (!coded.ok()) {
      return absl::Status(
          coded.status().code(),
          absl::StrFormat("coding blocks from %d of fragment '%s': %s", segment.first_block,
                          map_.layout().name, coded.status().message()));
    }
    segment.base_exponent = coded->base_exponent;
    offset += out.size();
    error += coded->error_energy;
    signal += coded->signal_energy;
  }
  result->nmse = signal > 0 ? error / signal : 0;
  result->feedback_norm = feedback ? std::sqrt(error) : 0;
  return result;
}

absl::StatusOr<std::shared_ptr<const CodedContribution>> OuterFragment::Encode(RoundKind kind,
                                                                               uint64_t noise_key) {
  absl::MutexLock lock(&mutex_);
  if (!has_snapshot_) return kept_;
  has_snapshot_ = false;
  auto coded = Code(kind, noise_key);
  std::vector<float> lost = std::exchange(snapshot_, {});
  if (!coded.ok()) return coded.status();
  kept_ = *std::move(coded);
  if (options_.error_feedback && kind != RoundKind::kSeed) {
    next_feedback_ = std::move(lost);
  } else {
    spare_->Give(std::move(lost));
  }
  return kept_;
}

PulledParameters OuterFragment::BeginWhole() const {
  return PulledParameters(
      {.map = &map_, .codec = options_.exact, .values = spare_->Take(map_.elements())});
}

void OuterFragment::SetOuter(std::vector<float> values) {
  const auto old = std::exchange(outer_, std::make_shared<std::vector<float>>(std::move(values)));
  if (old.use_count() == 1) spare_->Give(std::move(*old));
}

void OuterFragment::LoadWhole(PulledParameters pulled) {
  absl::MutexLock lock(&mutex_);
  SetOuter(std::move(pulled).Release());
  std::fill(feedback_.begin(), feedback_.end(), 0.0f);
}

absl::StatusOr<std::optional<PulledParameters>> OuterFragment::BeginDownlink(
    int64_t version) const {
  absl::MutexLock lock(&mutex_);
  if (staged_version_ == version) return std::nullopt;
  if (staged_version_.has_value()) return NotMerged();
  return PulledParameters({.map = &map_,
                           .codec = options_.down,
                           .base = outer_,
                           .values = spare_->Take(map_.elements())});
}

absl::Status OuterFragment::StageDownlink(int64_t version, PulledParameters pulled) {
  absl::MutexLock lock(&mutex_);
  if (staged_version_ == version) return absl::OkStatus();
  if (staged_version_.has_value()) return NotMerged();
  staged_ = std::move(pulled).Release();
  staged_version_ = version;
  return absl::OkStatus();
}

absl::Status OuterFragment::Merge(Replica& replica, double alpha, bool contributed) {
  absl::MutexLock lock(&mutex_);
  LH_CHECK(staged_version_.has_value(), "Merge needs a staged downlink");
  staged_version_.reset();
  SetOuter(std::exchange(staged_, {}));
  kept_ = nullptr;
  if (contributed && options_.error_feedback) {
    spare_->Give(std::exchange(feedback_, std::exchange(next_feedback_, {})));
  }
  next_feedback_ = {};
  if (alpha == 0) return map_.Write(replica, *outer_);
  if (alpha == 1) return absl::OkStatus();
  std::vector<float> live = spare_->Take(map_.elements());
  LH_RETURN_IF_ERROR(map_.Read(replica, absl::MakeSpan(live)));
  const float keep = static_cast<float>(alpha), take = static_cast<float>(1 - alpha);
  const std::vector<float>& outer = *outer_;
  for (size_t i = 0; i < live.size(); ++i) live[i] = keep * live[i] + take * outer[i];
  const absl::Status written = map_.Write(replica, live);
  spare_->Give(std::move(live));
  return written;
}

absl::Status OuterFragment::Install(Replica& replica) {
  absl::MutexLock lock(&mutex_);
  return map_.Write(replica, *outer_);
}

absl::Status OuterFragment::SaveLive(Replica& replica) {
  absl::MutexLock lock(&mutex_);
  saved_live_.assign(map_.elements(), 0.0f);
  return map_.Read(replica, absl::MakeSpan(saved_live_));
}

absl::Status OuterFragment::RestoreLive(Replica& replica) {
  absl::MutexLock lock(&mutex_);
  const std::vector<float> live = std::exchange(saved_live_, {});
  return map_.Write(replica, live);
}

std::vector<float> OuterFragment::outer() const {
  absl::MutexLock lock(&mutex_);
  return *outer_;
}

}  // namespace longhaul::session
