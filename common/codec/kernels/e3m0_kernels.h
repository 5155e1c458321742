// Kernels of e3m0 on whole blocks, in two kinds with equal bits. Pure functions; a caller pads a
// short last block with zeros. `codes` and `scales` need no alignment. Format:
// common/codec/e3m0_format.h.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/codec/kernels/block.h"

namespace longhaul::kernels {

struct E3m0Kernels {
  // Codes results.size() blocks, each with its own scale; scale bytes and what depends on the
  // largest scale of the segment are left to the caller. `search`: the scale of least error among
  // the neighbours (ties: the smallest scale), else the nearest. Blocks with NaN or Inf get some
  // codes.
  void (*encode)(absl::Span<const float> in, bool search, absl::Span<uint8_t> codes,
                 absl::Span<BlockResult> results);

  // The same for u = in + error; then error = u - decoded.
  void (*encode_with_feedback)(absl::Span<const float> in, absl::Span<float> error, bool search,
                               absl::Span<uint8_t> codes, absl::Span<BlockResult> results);

  // Decodes scales.size() blocks.
  void (*decode)(int32_t base_exponent, absl::Span<const uint8_t> codes,
                 absl::Span<const uint8_t> scales, absl::Span<float> out);

  // acc += weight * decoded.
  void (*accumulate)(int32_t base_exponent, absl::Span<const uint8_t> codes,
                     absl::Span<const uint8_t> scales, float weight, absl::Span<float> acc);
};

const E3m0Kernels& E3m0ScalarKernels();
const E3m0Kernels& E3m0SimdKernels();

}  // namespace longhaul::kernels
