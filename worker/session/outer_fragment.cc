#include "worker/session/outer_fragment.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"

namespace longhaul::session {

CodedSource SourceOf(std::shared_ptr<const CodedContribution> contribution) {
  CodedSource source{.segments = contribution->segments, .owner = contribution};
  for (size_t i = 0; i < contribution->segments.size(); ++i) {
    const int64_t end = i + 1 < contribution->offsets.size()
                            ? contribution->offsets[i + 1]
                            : static_cast<int64_t>(contribution->bytes.size());
    source.payloads.push_back(
        absl::MakeConstSpan(contribution->bytes)
            .subspan(contribution->offsets[i], end - contribution->offsets[i]));
  }
  return source;
}

OuterFragment::OuterFragment(FragmentMap map, Options options)
    : map_(std::move(map)), options_(options), outer_(map_.elements()) {
  if (options_.error_feedback) feedback_.resize(map_.elements());
}

absl::Status OuterFragment::TakeSnapshot(Replica& replica) {
  absl::MutexLock lock(&mutex_);
  snapshot_.assign(map_.elements(), 0.0f);
  has_snapshot_ = true;
  return map_.Read(replica, absl::MakeSpan(snapshot_));
}

absl::StatusOr<std::shared_ptr<CodedContribution>> OuterFragment::Code(
    const Codec& codec, std::vector<float> values, std::vector<float>* feedback) const {
  auto result = std::make_shared<CodedContribution>();
  result->segments = map_.segments();
  result->bytes.resize(codec.PayloadBytes(map_.elements()));
  double error = 0, signal = 0;
  int64_t offset = 0;
  for (SegmentRef& segment : result->segments) {
    const int64_t local = map_.LocalOffset(segment);
    const auto in = absl::MakeConstSpan(values).subspan(local, segment.elements);
    const auto out =
        absl::MakeSpan(result->bytes).subspan(offset, codec.PayloadBytes(segment.elements));
    auto coded = feedback != nullptr
                     ? codec.EncodeWithFeedback(
                           in, absl::MakeSpan(*feedback).subspan(local, segment.elements), out)
                     : codec.Encode(in, out);
    if (!coded.ok()) {
      return absl::Status(
          coded.status().code(),
          absl::StrFormat("coding blocks from %d of fragment '%s': %s", segment.first_block,
                          map_.layout().name, coded.status().message()));
    }
    segment.base_exponent = coded->base_exponent;
    result->offsets.push_back(offset);
    offset += out.size();
    error += coded->error_energy;
    signal += coded->signal_energy;
  }
  result->nmse = signal > 0 ? error / signal : 0;
  result->feedback_norm = feedback != nullptr ? std::sqrt(error) : 0;
  return result;
}

absl::StatusOr<std::shared_ptr<const CodedContribution>> OuterFragment::Encode(RoundKind kind) {
  absl::MutexLock lock(&mutex_);
  if (!has_snapshot_) return kept_;
  has_snapshot_ = false;
  std::vector<float> values = std::exchange(snapshot_, {});
  if (kind == RoundKind::kSeed) {
    LH_ASSIGN_OR_RETURN(kept_, Code(*options_.exact, std::move(values), nullptr));
    return kept_;
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = outer_[i] - values[i];
  next_feedback_ = feedback_;
  LH_ASSIGN_OR_RETURN(kept_, Code(*options_.up, std::move(values),
                                  options_.error_feedback ? &next_feedback_ : nullptr));
  return kept_;
}

absl::Status OuterFragment::CheckDigest(const PulledBlocks& part,
                                        absl::Span<const float> values) const {
  Digester digester;
  for (const SegmentRef& segment : part.blocks.segments) {
    digester.Update(values.subspan(map_.LocalOffset(segment), segment.elements));
  }
  const Digest128 expected{part.header.digest().high(), part.header.digest().low()};
  if (digester.Value() == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "fragment '%s' version %d: the outer parameters here have the digest %s, the coordinator's "
      "%s",
      map_.layout().name, part.header.version(), digester.Value().Hex(), expected.Hex()));
}

namespace {

// Calls `use(segment, payload)` for each segment of a part.
template <typename Use>
absl::Status ForEachSegment(const Codec& codec, const PulledBlocks& part, Use use) {
  int64_t offset = 0;
  for (const SegmentRef& segment : part.blocks.segments) {
    const int64_t bytes = codec.PayloadBytes(segment.elements);
    const auto payload = part.blocks.payload.span().subspan(offset, bytes);
    LH_RETURN_IF_ERROR(codec.Validate(segment.base_exponent, payload, segment.elements));
    LH_RETURN_IF_ERROR(use(segment, payload));
    offset += bytes;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status OuterFragment::LoadWhole(const std::vector<PulledBlocks>& parts) {
  std::vector<float> values(map_.elements());
  for (const PulledBlocks& part : parts) {
    LH_RETURN_IF_ERROR(
        ForEachSegment(*options_.exact, part, [&](const SegmentRef& segment, auto payload) {
          return options_.exact->Decode(
              segment.base_exponent, payload,
              absl::MakeSpan(values).subspan(map_.LocalOffset(segment), segment.elements));
        }));
    LH_RETURN_IF_ERROR(CheckDigest(part, values));
  }
  absl::MutexLock lock(&mutex_);
  outer_ = std::move(values);
  return absl::OkStatus();
}

absl::Status OuterFragment::StageDownlink(int64_t version, const std::vector<PulledBlocks>& parts) {
  absl::MutexLock lock(&mutex_);
  if (staged_version_ == version)
    return absl::OkStatus();  // Its answer was lost with a connection.
  if (staged_version_)
    return absl::FailedPreconditionError("a commit came before the one before it was merged");
  std::vector<float> values = outer_;
  for (const PulledBlocks& part : parts) {
    LH_RETURN_IF_ERROR(
        ForEachSegment(*options_.down, part, [&](const SegmentRef& segment, auto payload) {
          // The same multiplication by 1 and addition as the coordinator's: the same bits.
          return options_.down->DecodeAccumulate(
              segment.base_exponent, payload, 1.0f,
              absl::MakeSpan(values).subspan(map_.LocalOffset(segment), segment.elements));
        }));
    LH_RETURN_IF_ERROR(CheckDigest(part, values));
  }
  staged_ = std::move(values);
  staged_version_ = version;
  return absl::OkStatus();
}

absl::Status OuterFragment::Merge(Replica& replica, double alpha, bool contributed) {
  absl::MutexLock lock(&mutex_);
  LH_CHECK(staged_version_.has_value(), "Merge needs a staged downlink");
  staged_version_.reset();
  outer_ = std::exchange(staged_, {});
  kept_ = nullptr;
  if (contributed && options_.error_feedback) feedback_ = std::move(next_feedback_);
  next_feedback_ = {};
  if (alpha == 0) return map_.Write(replica, outer_);
  if (alpha == 1) return absl::OkStatus();
  std::vector<float> live(map_.elements());
  LH_RETURN_IF_ERROR(map_.Read(replica, absl::MakeSpan(live)));
  const float keep = static_cast<float>(alpha), take = static_cast<float>(1 - alpha);
  for (size_t i = 0; i < live.size(); ++i) live[i] = keep * live[i] + take * outer_[i];
  return map_.Write(replica, live);
}

absl::Status OuterFragment::Install(Replica& replica) {
  absl::MutexLock lock(&mutex_);
  return map_.Write(replica, outer_);
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
  return outer_;
}

}  // namespace longhaul::session
