// What one core can do at best, with the instruction set that Highway is set to: loops that are
// timed beside a kernel.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace longhaul::benchmark {

// Multiplies and adds in registers, without waiting for results. Returns the number of operations
// that it did; a fused multiply-add is two for each lane.
double RunFloatPeak(int64_t rounds);
// The same by AVX512-BF16's dot product. Only where kernels::HasFastBf16().
double RunBf16Peak(int64_t rounds);

// Reads all bytes, eight pages at once.
void ReadAll(absl::Span<const uint8_t> bytes);

}  // namespace longhaul::benchmark
