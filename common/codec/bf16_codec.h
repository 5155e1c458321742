// Two bytes an element, little endian: the upper half of the float, rounded to nearest even,
// saturated at the largest finite value (kernels/bf16_kernels.h). No scales.
#pragma once

#include "common/codec/codec.h"
#include "common/codec/kernels/bf16_kernels.h"
#include "common/codec/kernels/fp32_kernels.h"

namespace longhaul {

class Bf16Codec final : public Codec {
 public:
  explicit Bf16Codec(KernelKind kernels);

 private:
  absl::StatusOr<EncodeResult> DoEncode(absl::Span<const float> in,
                                        absl::Span<uint8_t> out) const override;
  absl::StatusOr<EncodeResult> DoEncodeWithFeedback(absl::Span<const float> in,
                                                    absl::Span<float> error,
                                                    absl::Span<uint8_t> out) const override;
  absl::Status DoValidate(absl::Span<const uint8_t> payload, int64_t elements) const override;
  void DoDecode(int32_t base_exponent, absl::Span<const uint8_t> payload,
                absl::Span<float> out) const override;
  void DoDecodeAccumulate(int32_t base_exponent, absl::Span<const uint8_t> payload, float weight,
                          absl::Span<float> acc) const override;

  const kernels::Bf16Kernels& kernels_;
  const kernels::Fp32Kernels& floats_;
};

}  // namespace longhaul
