// Kernels of bf16, in two kinds with equal bits. Pure functions; codes are little-endian 16-bit
// words and need no alignment. A float x becomes the upper half of bits(x) + 0x7fff + (bit 16 of
// x): rounded to nearest even in integers, so that denormals survive; what would round to Inf
// becomes the largest finite bf16 of its sign.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/codec/kernels/block.h"

namespace longhaul::kernels {

struct Bf16Kernels {
  // Codes results.size() whole blocks.
  void (*encode)(absl::Span<const float> in, absl::Span<uint8_t> codes,
                 absl::Span<BlockResult> results);

  // The same for u = in + error; then error = u - decoded.
  void (*encode_with_feedback)(absl::Span<const float> in, absl::Span<float> error,
                               absl::Span<uint8_t> codes, absl::Span<BlockResult> results);

  // Any number of elements, out.size().
  void (*decode)(absl::Span<const uint8_t> codes, absl::Span<float> out);

  // acc += weight * decoded.
  void (*accumulate)(absl::Span<const uint8_t> codes, float weight, absl::Span<float> acc);

  // Whether no code is NaN or Inf.
  bool (*is_finite)(absl::Span<const uint8_t> codes);
};

const Bf16Kernels& Bf16ScalarKernels();
const Bf16Kernels& Bf16SimdKernels();

}  // namespace longhaul::kernels
