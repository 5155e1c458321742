// Kernels on plain floats: what the fp32 codec and the checks of the others need. Two kinds with
// equal bits. Pure functions; bytes need no alignment.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/codec/kernels/block.h"

namespace longhaul::kernels {

struct Fp32Kernels {
  // Largest magnitude and signal energy of results.size() whole blocks.
  void (*measure)(absl::Span<const float> in, absl::Span<BlockResult> results);

  // Whether no in[i] + error[i] is NaN or Inf.
  bool (*sum_is_finite)(absl::Span<const float> in, absl::Span<const float> error);

  // Whether no float of these bytes is NaN or Inf.
  bool (*is_finite)(absl::Span<const uint8_t> bytes);

  // acc += weight * the floats of these bytes.
  void (*accumulate)(absl::Span<const uint8_t> bytes, float weight, absl::Span<float> acc);
};

const Fp32Kernels& Fp32ScalarKernels();
const Fp32Kernels& Fp32SimdKernels();

}  // namespace longhaul::kernels
