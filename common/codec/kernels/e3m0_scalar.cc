// The meaning of e3m0 in plain code.
#include <bit>
#include <cstring>

#include "common/codec/e3m0_format.h"
#include "common/codec/kernels/e3m0_kernels.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::kernels {
namespace {

using e3m0::Levels;

uint32_t Code(float x, const Levels& levels) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const int32_t magnitude = bits & kMagnitudeMask;
  if (magnitude < levels.least) return 0;
  const int32_t level = std::clamp((magnitude - levels.step) >> e3m0::kSignificandBits, 1, 7);
  return (bits >> 31 << 3) | level;
}

float Value(uint32_t code, const Levels& levels) {
  const uint32_t level = code & levels.mask;
  const uint32_t magnitude = level == 0 ? 0 : levels.origin + (level << e3m0::kSignificandBits);
  return std::bit_cast<float>((code >> 3 << 31) | magnitude);
}

uint32_t MagnitudeMax(const float* u) {
  uint32_t result = 0;
  for (int i = 0; i < kBlockElements; ++i) {
    result = std::max(result, std::bit_cast<uint32_t>(u[i]) & kMagnitudeMask);
  }
  return result;
}

float ErrorEnergy(const float* u, const Levels& levels, float factor) {
  float lanes[kLanes] = {};
  for (int i = 0; i < kBlockElements; ++i) {
    const float e = (u[i] - Value(Code(u[i], levels), levels)) * factor;
    lanes[i % kLanes] += e * e;
  }
  return SumLanes(lanes);
}

int32_t SearchScale(const float* u, int32_t nearest, float factor) {
  const int32_t first = std::max(nearest - e3m0::kSearchBelow, e3m0::kScaleIndexMin);
  const int32_t last = std::min(nearest + e3m0::kSearchAbove, e3m0::kScaleIndexMax);
  int32_t best = first;
  float best_error = ErrorEnergy(u, e3m0::LevelsOf(first), factor);
  for (int32_t index = first + 1; index <= last; ++index) {
    const float error = ErrorEnergy(u, e3m0::LevelsOf(index), factor);
    if (error < best_error) {
      best = index;
      best_error = error;
    }
  }
  return best;
}

// `error`, unless null, gets what the codes lose.
BlockResult EncodeBlock(const float* u, bool search, float* error, uint8_t* codes) {
  BlockResult result{.magnitude_max = MagnitudeMax(u)};
  const float factor = EnergyFactor(result.magnitude_max);
  result.scale_index = e3m0::NearestScale(result.magnitude_max);
  if (search && result.scale_index != 0)
    result.scale_index = SearchScale(u, result.scale_index, factor);

  const Levels levels = e3m0::LevelsOf(result.scale_index);
  uint32_t words[kLanes] = {};
  float error_lanes[kLanes] = {}, signal_lanes[kLanes] = {};
  for (int i = 0; i < kBlockElements; ++i) {
    const int lane = i % kLanes;
    const uint32_t code = Code(u[i], levels);
    words[lane] |= code << (i / kLanes * 4);
    const float lost = u[i] - Value(code, levels);
    const float e = lost * factor, x = u[i] * factor;
    error_lanes[lane] += e * e;
    signal_lanes[lane] += x * x;
    if (error != nullptr) error[i] = lost;
  }
  std::memcpy(codes, words, sizeof(words));
  result.error_energy = Energy(SumLanes(error_lanes), result.magnitude_max);
  result.signal_energy = Energy(SumLanes(signal_lanes), result.magnitude_max);
  return result;
}

void Encode(absl::Span<const float> in, bool search, absl::Span<uint8_t> codes,
            absl::Span<BlockResult> results) {
  for (size_t b = 0; b < results.size(); ++b) {
    results[b] =
        EncodeBlock(&in[b * kBlockElements], search, nullptr, &codes[b * e3m0::kCodeBytesPerBlock]);
  }
}

void EncodeWithFeedback(absl::Span<const float> in, absl::Span<float> error, bool search,
                        absl::Span<uint8_t> codes, absl::Span<BlockResult> results) {
  for (size_t b = 0; b < results.size(); ++b) {
    float u[kBlockElements];
    for (int i = 0; i < kBlockElements; ++i)
      u[i] = in[b * kBlockElements + i] + error[b * kBlockElements + i];
    results[b] =
        EncodeBlock(u, search, &error[b * kBlockElements], &codes[b * e3m0::kCodeBytesPerBlock]);
  }
}

void DecodeBlock(const uint8_t* codes, int32_t scale_index, float* out) {
  const Levels levels = e3m0::LevelsOf(scale_index);
  uint32_t words[kLanes];
  std::memcpy(words, codes, sizeof(words));
  for (int i = 0; i < kBlockElements; ++i)
    out[i] = Value(words[i % kLanes] >> (i / kLanes * 4) & 15, levels);
}

void Decode(int32_t base_exponent, absl::Span<const uint8_t> codes,
            absl::Span<const uint8_t> scales, absl::Span<float> out) {
  const int32_t origin = e3m0::ScaleOrigin(base_exponent);
  for (size_t b = 0; b < scales.size(); ++b) {
    DecodeBlock(&codes[b * e3m0::kCodeBytesPerBlock], origin + scales[b], &out[b * kBlockElements]);
  }
}

void Accumulate(int32_t base_exponent, absl::Span<const uint8_t> codes,
                absl::Span<const uint8_t> scales, float weight, absl::Span<float> acc) {
  const int32_t origin = e3m0::ScaleOrigin(base_exponent);
  for (size_t b = 0; b < scales.size(); ++b) {
    float decoded[kBlockElements];
    DecodeBlock(&codes[b * e3m0::kCodeBytesPerBlock], origin + scales[b], decoded);
    for (int i = 0; i < kBlockElements; ++i) acc[b * kBlockElements + i] += weight * decoded[i];
  }
}

}  // namespace

const E3m0Kernels& E3m0ScalarKernels() {
  static constexpr E3m0Kernels kernels = {Encode, EncodeWithFeedback, Decode, Accumulate};
  return kernels;
}

}  // namespace longhaul::kernels
