#include <bit>
#include <cmath>
#include <cstring>

#include "common/codec/kernels/fp32_kernels.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::kernels {
namespace {

float FloatAt(const uint8_t* bytes) {
  float result;
  std::memcpy(&result, bytes, sizeof(result));
  return result;
}

BlockResult MeasureBlock(const float* u) {
  BlockResult result;
  for (int i = 0; i < kBlockElements; ++i) {
    result.magnitude_max =
        std::max(result.magnitude_max, std::bit_cast<uint32_t>(u[i]) & kMagnitudeMask);
  }
  const float factor = EnergyFactor(result.magnitude_max);
  float lanes[kLanes] = {};
  for (int i = 0; i < kBlockElements; ++i) {
    const float x = u[i] * factor;
    lanes[i % kLanes] += x * x;
  }
  result.signal_energy = Energy(SumLanes(lanes), result.magnitude_max);
  return result;
}

void Measure(absl::Span<const float> in, absl::Span<BlockResult> results) {
  for (size_t b = 0; b < results.size(); ++b) results[b] = MeasureBlock(&in[b * kBlockElements]);
}

bool SumIsFinite(absl::Span<const float> in, absl::Span<const float> error) {
  for (size_t i = 0; i < in.size(); ++i) {
    if (!std::isfinite(in[i] + error[i])) return false;
  }
  return true;
}

bool IsFinite(absl::Span<const uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
    if (!std::isfinite(FloatAt(&bytes[i]))) return false;
  }
  return true;
}

void Accumulate(absl::Span<const uint8_t> bytes, float weight, absl::Span<float> acc) {
  for (size_t i = 0; i < acc.size(); ++i) acc[i] += weight * FloatAt(&bytes[i * sizeof(float)]);
}

}  // namespace

const Fp32Kernels& Fp32ScalarKernels() {
  static constexpr Fp32Kernels kernels = {Measure, SumIsFinite, IsFinite, Accumulate};
  return kernels;
}

}  // namespace longhaul::kernels
