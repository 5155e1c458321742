// The loops that all dense codecs share, in plain code: with a codec's policy they are its
// definition. A policy has
//   kCodeBytes                        of a block
//   kStochastic                       whether Code uses noise
//   Scale                             what coding and decoding a block need
//   Choose(u, max, n, &word) -> Scale   the encoder's scale of a block; n: elements that are there
//   FromPlane(run, block) -> Scale      the decoder's
//   Code(x, scale, noise_plus_one), Value(code, scale)
//   Put(codes, i, code), Get(codes, i)  a code's place in its block (Put into zeros)
#pragma once

#include <algorithm>
#include <cstring>

#include "common/codec/kernels/dense_kernels.h"
#include "common/codec/rounding_noise.h"
#include "common/codec/tail_order.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::kernels::scalar {

inline uint32_t Magnitude(float x) { return std::bit_cast<uint32_t>(x) & kMagnitudeMask; }

inline uint32_t MagnitudeMax(const float* u) {
  uint32_t result = 0;
  for (int i = 0; i < kBlockElements; ++i) result = std::max(result, Magnitude(u[i]));
  return result;
}

inline uint32_t FirstBad(const float* u) {
  uint32_t i = 0;
  while (Magnitude(u[i]) <= kFiniteMax) ++i;
  return i;
}

// Sum of ((u - value) * factor)^2 over the first `elements` of a block, in the order of block.h.
template <typename Policy>
float ErrorEnergy(const float* u, const typename Policy::Scale& scale, float factor,
                  int elements = kBlockElements, const BlockNoise* noise = nullptr) {
  float lanes[kLanes] = {};
  for (int i = 0; i < elements; ++i) {
    const float plus_one = Policy::kStochastic ? noise->PlusOne(i) : 1;
    const float lost = u[i] - Policy::Value(Policy::Code(u[i], scale, plus_one), scale);
    const float e = lost * factor;
    lanes[i % kLanes] += e * e;
  }
  return SumLanes(lanes);
}

inline float SignalEnergy(const float* u, float factor) {
  float lanes[kLanes] = {};
  for (int i = 0; i < kBlockElements; ++i) {
    const float x = u[i] * factor;
    lanes[i % kLanes] += x * x;
  }
  return SumLanes(lanes);
}

template <typename Policy>
void EncodeBlock(const float* u, int elements, int64_t block, const EncodeBlocks& run, float* lost,
                 uint8_t* codes) {
  BlockResult& result = run.results[block];
  result.magnitude_max = MagnitudeMax(u);
  const auto scale = Policy::Choose(u, result.magnitude_max, elements, &result.scale);
  if (result.magnitude_max > kFiniteMax) result.scale = FirstBad(u);
  const BlockNoise noise(run.noise.key, Policy::kStochastic ? run.noise.first_block + block : 0);
  if (IsMeasured(block)) {
    const uint32_t max = result.magnitude_max;
    const float factor = EnergyFactor(max);
    run.energies[block / kSampleBlocks] = {
        Energy(ErrorEnergy<Policy>(u, scale, factor, elements, &noise), max),
        Energy(SignalEnergy(u, factor), max)};
  }
  std::fill(codes, codes + Policy::kCodeBytes, 0);
  for (int i = 0; i < kBlockElements; ++i) {
    const auto code = Policy::Code(u[i], scale, Policy::kStochastic ? noise.PlusOne(i) : 1);
    Policy::Put(codes, i, code);
    if (lost != nullptr) lost[i] = u[i] - Policy::Value(code, scale);
  }
}

template <typename Policy>
void Encode(const EncodeBlocks& run) {
  for (int64_t b = 0; b < run.blocks; ++b) {
    const int64_t at = b * kBlockElements;
    float u[kBlockElements];
    for (int i = 0; i < kBlockElements; ++i) {
      u[i] = run.values[at + i];
      if (run.minus != nullptr) u[i] = u[i] - run.minus[at + i];
      if (run.error != nullptr) {
        const float again = run.decay * run.error[at + i];
        u[i] = u[i] + again;
      }
    }
    const int elements = b + 1 == run.blocks ? run.last_elements : kBlockElements;
    EncodeBlock<Policy>(u, elements, run.first_block + b, run,
                        run.lost == nullptr ? nullptr : run.lost + at,
                        run.codes + b * Policy::kCodeBytes);
  }
}

template <typename Policy>
void Decode(const CodedRun& run, float* out) {
  for (int64_t b = 0; b < run.blocks; ++b) {
    const auto scale = Policy::FromPlane(run, b);
    const uint8_t* codes = run.codes + b * Policy::kCodeBytes;
    for (int i = 0; i < kBlockElements; ++i)
      out[b * kBlockElements + i] = Policy::Value(Policy::Get(codes, i), scale);
  }
}

template <typename Policy>
void Accumulate(const CodedRun& run, float weight, float* acc) {
  for (int64_t b = 0; b < run.blocks; ++b) {
    const auto scale = Policy::FromPlane(run, b);
    const uint8_t* codes = run.codes + b * Policy::kCodeBytes;
    for (int i = 0; i < kBlockElements; ++i)
      acc[b * kBlockElements + i] += weight * Policy::Value(Policy::Get(codes, i), scale);
  }
}

template <typename Policy>
constexpr DenseKernels KernelsOf() {
  return {Encode<Policy>, Decode<Policy>, Accumulate<Policy>};
}

struct HalfBytes {
  static constexpr int64_t kCodeBytes = kHalfBytesPerBlock;
  static void Put(uint8_t* codes, int i, uint32_t code) {
    codes[HalfByteInBlock(i)] |= code << HalfByteShift(i);
  }
  static uint32_t Get(const uint8_t* codes, int i) {
    return codes[HalfByteInBlock(i)] >> HalfByteShift(i) & 15;
  }
};

template <typename T>
T LoadAs(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

}  // namespace longhaul::kernels::scalar
