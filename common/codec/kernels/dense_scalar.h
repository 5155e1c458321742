// The loops that all dense codecs share, in plain code. With a codec's policy (dense_policy.h) they
// define the codec.
#pragma once

#include <algorithm>
#include <cstring>

#include "common/codec/kernels/dense_kernels.h"
#include "common/codec/kernels/dense_policy.h"
#include "common/codec/rounding_noise.h"
#include "common/codec/tail_order.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::kernels::scalar {

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

// The place of a code in its block. Put requires that the block was zero.
template <int kBits>
void Put(uint8_t* codes, int i, uint32_t code) {
  switch (kBits) {
    case 1:
      codes[i / 8] |= code << i % 8;
      break;
    case 4:
      codes[HalfByteInBlock(i)] |= code << HalfByteShift(i);
      break;
    case 6:
      PutSixBits(codes, i, code);
      break;
    case 8:
      codes[ByteInBlock(i)] = code;
      break;
    default:
      std::memcpy(codes + i * (kBits / 8), &code, kBits / 8);
  }
}

template <int kBits>
uint32_t Get(const uint8_t* codes, int i) {
  uint32_t code = 0;
  switch (kBits) {
    case 1:
      return codes[i / 8] >> i % 8 & 1;
    case 4:
      return codes[HalfByteInBlock(i)] >> HalfByteShift(i) & 15;
    case 6:
      return GetSixBits(codes, i);
    case 8:
      return codes[ByteInBlock(i)];
    default:
      std::memcpy(&code, codes + i * (kBits / 8), kBits / 8);
      return code;
  }
}

template <typename Policy>
inline constexpr int64_t kCodeBytes = kBlockElements* Policy::kCodeBits / 8;

template <typename Policy>
void EncodeBlock(const float* u, int elements, int64_t block, const EncodeBlocks& run, float* lost,
                 uint8_t* codes) {
  BlockResult& result = run.results[block];
  result.magnitude_max = MagnitudeMax(u);
  const PlainBlock values = {u};
  const auto scale = Policy::Choose(values, result.magnitude_max, elements, &result.scale);
  if (result.magnitude_max > kFiniteMax) result.scale = FirstBad(u);
  const BlockNoise noise(run.noise.key, Policy::kStochastic ? run.noise.first_block + block : 0);
  if (IsMeasured(block)) {
    const uint32_t max = result.magnitude_max;
    const float factor = EnergyFactor(max);
    run.energies[block / kSampleBlocks] = {
        Energy(ErrorEnergy<Policy>(values, scale, factor, elements, noise), max),
        Energy(SignalEnergy(values, factor), max)};
  }
  std::fill(codes, codes + kCodeBytes<Policy>, 0);
  for (int i = 0; i < kBlockElements; ++i) {
    const auto code = Policy::Code(u[i], scale, Policy::kStochastic ? noise.PlusOne(i) : 1);
    Put<Policy::kCodeBits>(codes, i, code);
    if (lost != nullptr) lost[i] = u[i] - Policy::Value(code, scale);
  }
}

template <typename Policy>
void Encode(const EncodeBlocks& run) {
  for (int64_t b = 0; b < run.blocks; ++b) {
    const int64_t at = b * kBlockElements;
    float u[kBlockElements];
    for (int i = 0; i < kBlockElements; ++i)
      u[i] = InputAt(run.values, run.minus, run.error, run.decay, at + i);
    const int elements = b + 1 == run.blocks ? run.last_elements : kBlockElements;
    EncodeBlock<Policy>(u, elements, run.first_block + b, run,
                        run.lost == nullptr ? nullptr : run.lost + at,
                        run.codes + b * kCodeBytes<Policy>);
  }
}

template <typename Policy>
void Decode(const CodedRun& run, float* out) {
  for (int64_t b = 0; b < run.blocks; ++b) {
    const auto scale = Policy::FromPlane(run.scales, b, run.base_exponent);
    const uint8_t* codes = run.codes + b * kCodeBytes<Policy>;
    for (int i = 0; i < kBlockElements; ++i)
      out[b * kBlockElements + i] = Policy::Value(Get<Policy::kCodeBits>(codes, i), scale);
  }
}

template <typename Policy>
void Accumulate(const CodedRun& run, float weight, float* acc) {
  for (int64_t b = 0; b < run.blocks; ++b) {
    const auto scale = Policy::FromPlane(run.scales, b, run.base_exponent);
    const uint8_t* codes = run.codes + b * kCodeBytes<Policy>;
    for (int i = 0; i < kBlockElements; ++i)
      acc[b * kBlockElements + i] +=
          weight * Policy::Value(Get<Policy::kCodeBits>(codes, i), scale);
  }
}

template <typename Policy>
constexpr DenseKernels KernelsOf() {
  return {Encode<Policy>, Decode<Policy>, Accumulate<Policy>};
}

}  // namespace longhaul::kernels::scalar
