#include "common/codec/fp32_codec.h"

#include <array>
#include <cstring>

#include "common/base/checked_math.h"
#include "common/codec/segment_blocks.h"

namespace longhaul {

Fp32Codec::Fp32Codec(KernelKind kernels)
    : Codec(
          {.kind = CodecKind::kFp32,
           .exact = true,
           .planes = {.code_bytes_per_block = kBlockElements * static_cast<int64_t>(sizeof(float))},
           .base_exponent_min = 0,
           .base_exponent_max = 0}),
      floats_(kernels == KernelKind::kScalar ? kernels::Fp32ScalarKernels()
                                             : kernels::Fp32SimdKernels()) {}

absl::StatusOr<EncodeResult> Fp32Codec::DoEncode(absl::Span<const float> in,
                                                 absl::Span<uint8_t> out) const {
  std::array<kernels::BlockResult, kTileBlocks> storage;
  const int64_t whole = in.size() / kBlockElements;
  const auto blocks = absl::MakeSpan(storage).first(CeilDiv(in.size(), kBlockElements));
  floats_.measure(in, blocks.first(whole));
  if (const TailBlock tail(in); tail.elements() > 0)
    floats_.measure(tail.block(), blocks.subspan(whole));
  if (!AllFinite(blocks)) return NonFiniteError(name(), in);
  std::memcpy(out.data(), in.data(), out.size());
  return SumEnergies(blocks);
}

absl::StatusOr<EncodeResult> Fp32Codec::DoEncodeWithFeedback(absl::Span<const float> in,
                                                             absl::Span<float> error,
                                                             absl::Span<uint8_t> out) const {
  if (!floats_.sum_is_finite(in, error)) return NonFiniteError(name(), in, error);
  for (size_t i = 0; i < in.size(); ++i) error[i] = in[i] + error[i];
  auto result = DoEncode(error, out);
  std::fill(error.begin(), error.end(), 0.0f);
  return result;
}

absl::Status Fp32Codec::DoValidate(absl::Span<const uint8_t> payload, int64_t elements) const {
  if (floats_.is_finite(payload)) return absl::OkStatus();
  return absl::InvalidArgumentError("fp32: a coded element is NaN or Inf");
}

void Fp32Codec::DoDecode(int32_t base_exponent, absl::Span<const uint8_t> payload,
                         absl::Span<float> out) const {
  std::memcpy(out.data(), payload.data(), payload.size());
}

void Fp32Codec::DoDecodeAccumulate(int32_t base_exponent, absl::Span<const uint8_t> payload,
                                   float weight, absl::Span<float> acc) const {
  floats_.accumulate(payload, weight, acc);
}

}  // namespace longhaul
