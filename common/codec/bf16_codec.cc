#include "common/codec/bf16_codec.h"

#include <array>
#include <cstring>

#include "common/base/checked_math.h"
#include "common/codec/kernels/bf16_element.h"
#include "common/codec/segment_blocks.h"

namespace longhaul {

using kernels::BlockResult;
using kernels::kBf16Bytes;

Bf16Codec::Bf16Codec(KernelKind kernels)
    : Codec({.kind = CodecKind::kBf16,
             .exact = false,
             .planes = {.code_bytes_per_block = kBlockElements * kBf16Bytes},
             .base_exponent_min = 0,
             .base_exponent_max = 0}),
      kernels_(kernels == KernelKind::kScalar ? kernels::Bf16ScalarKernels()
                                              : kernels::Bf16SimdKernels()),
      floats_(kernels == KernelKind::kScalar ? kernels::Fp32ScalarKernels()
                                             : kernels::Fp32SimdKernels()) {}

absl::StatusOr<EncodeResult> Bf16Codec::DoEncode(absl::Span<const float> in,
                                                 absl::Span<uint8_t> out) const {
  std::array<BlockResult, kTileBlocks> storage;
  const int64_t whole = in.size() / kBlockElements;
  const auto blocks = absl::MakeSpan(storage).first(CeilDiv(in.size(), kBlockElements));
  kernels_.encode(in, out, blocks.first(whole));
  if (const TailBlock tail(in); tail.elements() > 0) {
    uint8_t codes[kBlockElements * kBf16Bytes];
    kernels_.encode(tail.block(), absl::MakeSpan(codes), blocks.subspan(whole));
    std::memcpy(out.end() - tail.elements() * kBf16Bytes, codes, tail.elements() * kBf16Bytes);
  }
  if (!AllFinite(blocks)) return NonFiniteError(name(), in);
  return SumEnergies(blocks);
}

absl::StatusOr<EncodeResult> Bf16Codec::DoEncodeWithFeedback(absl::Span<const float> in,
                                                             absl::Span<float> error,
                                                             absl::Span<uint8_t> out) const {
  if (!floats_.sum_is_finite(in, error)) return NonFiniteError(name(), in, error);
  std::array<BlockResult, kTileBlocks> storage;
  const int64_t whole = in.size() / kBlockElements;
  const auto blocks = absl::MakeSpan(storage).first(CeilDiv(in.size(), kBlockElements));
  kernels_.encode_with_feedback(in, error, out, blocks.first(whole));
  if (const TailBlock tail(in); tail.elements() > 0) {
    TailBlock tail_error(error);
    uint8_t codes[kBlockElements * kBf16Bytes];
    kernels_.encode_with_feedback(tail.block(), tail_error.block(), absl::MakeSpan(codes),
                                  blocks.subspan(whole));
    tail_error.CopyTo(error);
    std::memcpy(out.end() - tail.elements() * kBf16Bytes, codes, tail.elements() * kBf16Bytes);
  }
  return SumEnergies(blocks);
}

absl::Status Bf16Codec::DoValidate(absl::Span<const uint8_t> payload, int64_t elements) const {
  if (kernels_.is_finite(payload)) return absl::OkStatus();
  return absl::InvalidArgumentError("bf16: a coded element is NaN or Inf");
}

void Bf16Codec::DoDecode(int32_t base_exponent, absl::Span<const uint8_t> payload,
                         absl::Span<float> out) const {
  kernels_.decode(payload, out);
}

void Bf16Codec::DoDecodeAccumulate(int32_t base_exponent, absl::Span<const uint8_t> payload,
                                   float weight, absl::Span<float> acc) const {
  kernels_.accumulate(payload, weight, acc);
}

}  // namespace longhaul
