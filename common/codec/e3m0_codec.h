// Four bits an element (sign and 3 exponent bits, "E3M0" of Streaming DiLoCo) and a scale byte for
// each block. The layout and the arithmetic are in e3m0_format.h.
#pragma once

#include "common/codec/codec.h"
#include "common/codec/kernels/e3m0_kernels.h"
#include "common/codec/kernels/fp32_kernels.h"

namespace longhaul {

class E3m0Codec final : public Codec {
 public:
  E3m0Codec(KernelKind kernels, bool search_scale);

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

  // Both forms of encoding; `error` is empty without feedback. Blocks are coded in one pass, then
  // the scale bytes follow from the largest scale.
  absl::StatusOr<EncodeResult> EncodeSegment(absl::Span<const float> in, absl::Span<float> error,
                                             absl::Span<uint8_t> out) const;
  void EncodeBlocks(absl::Span<const float> in, absl::Span<float> error, absl::Span<uint8_t> codes,
                    absl::Span<kernels::BlockResult> results) const;

  // Turns a block whose scale is out of the segment's range into zeros. `error`: null without
  // feedback.
  void ZeroBlock(kernels::BlockResult& block, uint8_t* codes, float* error) const;

  const bool search_scale_;
  const kernels::E3m0Kernels& kernels_;
  const kernels::Fp32Kernels& floats_;
};

}  // namespace longhaul
