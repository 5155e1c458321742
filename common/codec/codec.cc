#include "common/codec/codec.h"

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/codec/segment_encoder.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

bool IsSegmentSize(int64_t elements) { return elements >= 1 && elements <= kTileElements; }

void CheckRun(const SegmentView& segment, int64_t first_block, int64_t elements) {
  const int64_t first = first_block * kBlockElements;
  LH_CHECK(first_block >= 0 && elements >= 1 && elements <= segment.elements - first &&
               (elements % kBlockElements == 0 || first + elements == segment.elements),
           "not whole blocks of the segment");
}

}  // namespace

std::string_view CodecName(CodecKind kind) {
  for (const CodecRow& codec : kCodecs) {
    if (codec.kind == kind) return codec.name;
  }
  return "unknown";
}

int64_t Codec::FragmentBytes(int64_t elements) const {
  LH_CHECK(elements >= 0 && elements <= int64_t{1} << 48, "element count out of range");
  return elements / kTileElements * PayloadBytes(kTileElements) +
         PayloadBytes(elements % kTileElements);
}

absl::StatusOr<EncodeResult> Codec::Encode(const EncodeInput& in, absl::Span<float> lost,
                                           absl::Span<uint8_t> out, const NoiseKey& noise) const {
  SegmentEncoder encoder(*this, in.values.size(), lost, out, noise);
  encoder.Add(in);
  return encoder.Finish();
}

absl::Status Codec::Validate(const SegmentView& segment) const {
  LH_RETURN_IF_ERROR(CheckFrame(segment));
  return DoValidate(segment);
}

absl::Status Codec::Decode(const SegmentView& segment, absl::Span<float> out,
                           int64_t first_block) const {
  LH_RETURN_IF_ERROR(CheckFrame(segment));
  CheckRun(segment, first_block, out.size());
  DoDecode(segment, first_block, out);
  return absl::OkStatus();
}

absl::Status Codec::DecodeAccumulate(const SegmentView& segment, float weight,
                                     absl::Span<float> acc, int64_t first_block) const {
  LH_RETURN_IF_ERROR(CheckFrame(segment));
  CheckRun(segment, first_block, acc.size());
  DoDecodeAccumulate(segment, first_block, weight, acc);
  return absl::OkStatus();
}

absl::Status Codec::CheckFrame(const SegmentView& segment) const {
  if (!IsSegmentSize(segment.elements)) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: a segment has 1 to %d elements, not %d",
                                                      name(), kTileElements, segment.elements));
  }
  const int64_t expected = PayloadBytes(segment.elements);
  if (static_cast<int64_t>(segment.payload.size()) != expected) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: %d elements take %d bytes, not %d",
                                                      name(), segment.elements, expected,
                                                      segment.payload.size()));
  }
  if (segment.base_exponent < exponents_.min || segment.base_exponent > exponents_.max) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: base_exponent %d is not within [%d, %d]",
                                                      name(), segment.base_exponent, exponents_.min,
                                                      exponents_.max));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
