#include "common/codec/codec.h"

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

bool IsSegmentSize(int64_t elements) { return elements >= 1 && elements <= kTileElements; }

}  // namespace

std::string_view CodecName(CodecKind kind) {
  switch (kind) {
    case CodecKind::kFp32:
      return "fp32";
    case CodecKind::kBf16:
      return "bf16";
    case CodecKind::kE3m0:
      return "e3m0";
    case CodecKind::kInt8:
      return "int8";
    case CodecKind::kInt4:
      return "int4";
    case CodecKind::kSign1:
      return "sign1";
    case CodecKind::kTopk2:
      return "topk2";
  }
  return "unknown";
}

int64_t Codec::PayloadBytes(int64_t elements) const {
  LH_CHECK(elements >= 0 && elements <= int64_t{1} << 48, "element count out of range");
  return CeilDiv(elements * traits_.planes.code_bytes_per_block, kBlockElements) +
         CeilDiv(elements, kBlockElements) * traits_.planes.scale_bytes_per_block;
}

absl::StatusOr<EncodeResult> Codec::Encode(absl::Span<const float> in,
                                           absl::Span<uint8_t> out) const {
  const int64_t elements = in.size();
  LH_CHECK(IsSegmentSize(elements), "not the size of a segment");
  LH_CHECK(static_cast<int64_t>(out.size()) == PayloadBytes(elements), "output of the wrong size");
  return DoEncode(in, out);
}

absl::StatusOr<EncodeResult> Codec::EncodeWithFeedback(absl::Span<const float> in,
                                                       absl::Span<float> error,
                                                       absl::Span<uint8_t> out) const {
  const int64_t elements = in.size();
  LH_CHECK(IsSegmentSize(elements), "not the size of a segment");
  LH_CHECK(error.size() == in.size(), "error feedback of the wrong size");
  LH_CHECK(static_cast<int64_t>(out.size()) == PayloadBytes(elements), "output of the wrong size");
  return DoEncodeWithFeedback(in, error, out);
}

absl::Status Codec::Validate(int32_t base_exponent, absl::Span<const uint8_t> payload,
                             int64_t elements) const {
  LH_RETURN_IF_ERROR(CheckFrame(base_exponent, payload.size(), elements));
  return DoValidate(payload, elements);
}

absl::Status Codec::Decode(int32_t base_exponent, absl::Span<const uint8_t> payload,
                           absl::Span<float> out) const {
  LH_RETURN_IF_ERROR(CheckFrame(base_exponent, payload.size(), out.size()));
  DoDecode(base_exponent, payload, out);
  return absl::OkStatus();
}

absl::Status Codec::DecodeAccumulate(int32_t base_exponent, absl::Span<const uint8_t> payload,
                                     float weight, absl::Span<float> acc) const {
  LH_RETURN_IF_ERROR(CheckFrame(base_exponent, payload.size(), acc.size()));
  DoDecodeAccumulate(base_exponent, payload, weight, acc);
  return absl::OkStatus();
}

absl::Status Codec::CheckFrame(int32_t base_exponent, int64_t payload_bytes,
                               int64_t elements) const {
  if (!IsSegmentSize(elements)) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: a segment has 1 to %d elements, not %d",
                                                      name(), kTileElements, elements));
  }
  if (payload_bytes != PayloadBytes(elements)) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: %d elements take %d bytes, not %d",
                                                      name(), elements, PayloadBytes(elements),
                                                      payload_bytes));
  }
  if (base_exponent < traits_.base_exponent_min || base_exponent > traits_.base_exponent_max) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: base_exponent %d is not within [%d, %d]", name(), base_exponent,
                        traits_.base_exponent_min, traits_.base_exponent_max));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
