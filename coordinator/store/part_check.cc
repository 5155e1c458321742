#include "coordinator/store/part_check.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

constexpr float kMagnitudeMax = 0x1p64f;

absl::Status BadSegment(const SegmentRef& segment, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "segment of ", segment.elements, " elements at block ", segment.first_block, ": ", what));
}

// Checks that a segment lies within one tile of the fragment, on whole blocks, and not before
// `block`.
absl::Status CheckBounds(const SegmentRef& segment, int64_t block, int64_t fragment_elements) {
  if (segment.elements < 1 || segment.elements > kTileElements)
    return BadSegment(segment, "bad size");
  if (segment.first_block < block) return BadSegment(segment, "not in ascending order");
  if (segment.first_block > fragment_elements / kBlockElements) {
    return BadSegment(segment, "outside the fragment");
  }
  const int64_t begin = segment.first_block * kBlockElements, end = begin + segment.elements;
  if (end > fragment_elements) return BadSegment(segment, "outside the fragment");
  if (begin / kTileElements != (end - 1) / kTileElements)
    return BadSegment(segment, "across a tile");
  if (segment.elements % kBlockElements != 0 && end != fragment_elements) {
    return BadSegment(segment, "not of whole blocks");
  }
  return absl::OkStatus();
}

// The largest magnitude. The bits of finite values are compared, so that neither rounding nor order
// matters.
float MagnitudeOf(absl::Span<const float> values) {
  uint32_t bits = 0;
  for (const float value : values) {
    bits = std::max(bits, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  }
  return std::bit_cast<float>(bits);
}

}  // namespace

absl::Status SegmentChecker::Check(const SegmentRef& segment, absl::Span<const uint8_t> payload) {
  const SegmentView coded = {segment.elements, segment.base_exponent, payload};
  LH_RETURN_IF_ERROR(codec_->Validate(coded));
  if (codec_->MagnitudeBound(coded) <= kMagnitudeMax) return absl::OkStatus();
  decoded_.resize(segment.elements);
  LH_RETURN_IF_ERROR(codec_->Decode(coded, absl::MakeSpan(decoded_)));
  if (MagnitudeOf(decoded_) <= kMagnitudeMax) return absl::OkStatus();
  return BadSegment(segment, "a value beyond 2^64");
}

absl::Status CheckPart(const PartInfo& part, int64_t payload_bytes, int64_t fragment_elements) {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> codec, MakeCodec({.kind = part.codec}));
  if (part.segments.empty()) return absl::InvalidArgumentError("a part without segments");
  int64_t block = 0, bytes = 0;
  for (const SegmentRef& segment : part.segments) {
    LH_RETURN_IF_ERROR(CheckBounds(segment, block, fragment_elements));
    block = segment.first_block + CeilDiv(segment.elements, kBlockElements);
    bytes += codec->PayloadBytes(segment.elements);
  }
  if (bytes == payload_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("segments of ", bytes, " coded bytes with a payload of ", payload_bytes));
}

}  // namespace longhaul
