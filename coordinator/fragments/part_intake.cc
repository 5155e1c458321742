#include "coordinator/fragments/part_intake.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/codec/segment_slice.h"
#include "common/rpc/status_details.h"
#include "coordinator/fragments/refusal.h"
#include "coordinator/store/fatal.h"

namespace longhaul::coordinator {
namespace {

absl::Status BadSegment(int fragment, int64_t block, const absl::Status& cause) {
  return WithErrorInfo(
      absl::InvalidArgumentError(absl::StrCat("fragment ", fragment, ", the segment at block ",
                                              block, ": ", cause.message())),
      {"BAD_SEGMENT", {{"fragment", absl::StrCat(fragment)}, {"block", absl::StrCat(block)}}});
}

BlockRange RangeOf(const SegmentRef& segment) {
  return {segment.first_block, CeilDiv(segment.elements, kBlockElements)};
}

}  // namespace

PartIntake::PartIntake(std::shared_ptr<JobFragments> job, std::shared_ptr<SharedStore> store,
                       ContributionKey key, double weight)
    : job_(std::move(job)),
      store_(std::move(store)),
      key_(std::move(key)),
      weight_(weight),
      codec_(job_->CodecFor(key_.round.kind)),
      segment_bytes_([this](int32_t elements) { return codec_.PayloadBytes(elements); }),
      checker_(&codec_) {}

absl::Status PartIntake::Take(const CodedChunk& chunk) {
  LH_RETURN_IF_ERROR(Validate(chunk));
  if (small_segments_.empty() && chunk.payload_bytes >= kPartBytesMin) return Append(chunk);
  small_segments_.insert(small_segments_.end(), chunk.segments.begin(), chunk.segments.end());
  for (const absl::Span<const uint8_t> piece : chunk.pieces) {
    small_bytes_.insert(small_bytes_.end(), piece.begin(), piece.end());
  }
  return static_cast<int64_t>(small_bytes_.size()) >= kPartBytesMin ? Finish() : absl::OkStatus();
}

absl::Status PartIntake::Finish() {
  if (small_segments_.empty()) return absl::OkStatus();
  const std::vector<uint8_t> bytes = std::exchange(small_bytes_, {});
  return Append({.segments = std::exchange(small_segments_, {}),
                 .pieces = {bytes},
                 .payload_bytes = static_cast<int64_t>(bytes.size())});
}

absl::Status PartIntake::Validate(const CodedChunk& chunk) {
  return ForEachSegment(chunk, segment_bytes_, [this](const SegmentRef& segment, auto payload) {
    const absl::Status valid = checker_.Check(segment, payload);
    return valid.ok() ? valid : BadSegment(key_.round.fragment, segment.first_block, valid);
  });
}

absl::Status PartIntake::Append(const CodedChunk& chunk) {
  const std::vector<BlockRange> brought = BlocksOf(chunk.segments);
  const std::vector<BlockRange> missing = store_->contributions().Reserve(key_, brought);
  if (missing.empty()) return absl::OkStatus();
  if (missing == brought) return AppendPart(chunk.segments, chunk.pieces, missing);
  std::vector<SegmentRef> segments;
  std::vector<uint8_t> bytes;
  if (const absl::Status cut = Cut(chunk, missing, &segments, &bytes); !cut.ok()) {
    store_->contributions().Release(key_, missing);
    return cut;
  }
  return AppendPart(segments, {bytes}, missing);
}

absl::Status PartIntake::AppendPart(const std::vector<SegmentRef>& segments, Log::Pieces payload,
                                    const std::vector<BlockRange>& blocks) {
  PartInfo part{.round = key_.round,
                .pool = key_.pool,
                .codec = codec_.kind(),
                .segments = segments,
                .incarnation = key_.incarnation,
                .weight = weight_};
  absl::StatusOr<StoredPart> appended = (*store_)->AppendPart(part, payload);
  if (!appended.ok()) {
    store_->contributions().Release(key_, blocks);
    if (Passes(appended.status()))
      job_->set_full(JobFragments::Storing::kPart, appended.status().message());
    // The round may have been committed since the header was accepted. Then these bytes were in the
    // log before: the coordinator stopped before it could say so.
    const absl::StatusOr<int64_t> have = (*store_)->Version(key_.round.fragment);
    if (have.ok() && *have >= key_.round.version)
      return VersionMismatch(key_.round.fragment, key_.round.version, *have);
    return appended.status();
  }
  job_->set_full(JobFragments::Storing::kPart, "");
  store_->contributions().Confirm(key_, blocks, *std::move(appended));
  return absl::OkStatus();
}

absl::Status PartIntake::Cut(const CodedChunk& chunk, const std::vector<BlockRange>& blocks,
                             std::vector<SegmentRef>* segments, std::vector<uint8_t>* bytes) const {
  return ForEachSegment(chunk, segment_bytes_, [&](const SegmentRef& segment, auto payload) {
    const BlockRange all = RangeOf(segment);
    for (const BlockRange& wanted : blocks) {
      const int64_t first = std::max(all.first, wanted.first);
      const int64_t end = std::min(all.end(), wanted.end());
      if (first >= end) continue;
      const BlockRange inside{first - all.first, end - first};
      const auto elements = static_cast<int32_t>(ElementsOf(inside, segment.elements));
      const size_t begin = bytes->size();
      bytes->resize(begin + codec_.PayloadBytes(elements));
      LH_RETURN_IF_ERROR(SliceSegment(codec_, {segment.elements, segment.base_exponent, payload},
                                      inside, absl::MakeSpan(*bytes).subspan(begin)));
      segments->push_back({first, elements, segment.base_exponent});
    }
    return absl::OkStatus();
  });
}

}  // namespace longhaul::coordinator
