#include "coordinator/store/shard_check.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/codec.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

constexpr float kMagnitudeMax = 0x1p64f;

absl::Status Refuse(const CodedSegment& segment, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "segment of ", segment.elements, " elements at block ", segment.first_block, ": ", what));
}

// Whether a segment lies within one tile of the fragment, on whole blocks, not before `block`.
absl::Status CheckPlace(const CodedSegment& segment, int64_t block, int64_t fragment_elements) {
  if (segment.elements < 1 || segment.elements > kTileElements) return Refuse(segment, "bad size");
  if (segment.first_block < block) return Refuse(segment, "not in ascending order");
  if (segment.first_block > fragment_elements / kBlockElements) {
    return Refuse(segment, "outside the fragment");
  }
  const int64_t begin = segment.first_block * kBlockElements, end = begin + segment.elements;
  if (end > fragment_elements) return Refuse(segment, "outside the fragment");
  if (begin / kTileElements != (end - 1) / kTileElements) return Refuse(segment, "across a tile");
  if (segment.elements % kBlockElements != 0 && end != fragment_elements) {
    return Refuse(segment, "not of whole blocks");
  }
  return absl::OkStatus();
}

// The largest magnitude, by the order of the bits of finite values: independent of rounding and
// order.
float MagnitudeOf(absl::Span<const float> values) {
  uint32_t bits = 0;
  for (const float value : values) {
    bits = std::max(bits, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  }
  return std::bit_cast<float>(bits);
}

}  // namespace

absl::Status CheckShard(const ShardInfo& shard, absl::Span<const uint8_t> payload,
                        int64_t fragment_elements) {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<Codec> codec, MakeCodec({.kind = shard.codec}));
  if (shard.segments.empty()) return absl::InvalidArgumentError("a shard without segments");
  std::vector<float> decoded;
  int64_t block = 0;
  for (const CodedSegment& segment : shard.segments) {
    LH_RETURN_IF_ERROR(CheckPlace(segment, block, fragment_elements));
    block = segment.first_block + (segment.elements + kBlockElements - 1) / kBlockElements;
    const size_t bytes = codec->PayloadBytes(segment.elements);
    if (bytes > payload.size()) return Refuse(segment, "the payload is too short");
    const absl::Span<const uint8_t> coded = payload.first(bytes);
    payload.remove_prefix(bytes);
    LH_RETURN_IF_ERROR(codec->Validate(segment.base_exponent, coded, segment.elements));
    decoded.resize(segment.elements);
    LH_RETURN_IF_ERROR(codec->Decode(segment.base_exponent, coded, absl::MakeSpan(decoded)));
    if (!(MagnitudeOf(decoded) <= kMagnitudeMax)) return Refuse(segment, "a value beyond 2^64");
  }
  if (!payload.empty()) return absl::InvalidArgumentError("the payload is too long");
  return absl::OkStatus();
}

}  // namespace longhaul
