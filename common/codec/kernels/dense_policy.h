// What makes a dense codec: its policy, plain arithmetic that the scalar kernels (the definition)
// and the CUDA kernels both compile, so that they are equal by construction. A policy has
//   kCodeBits, kScaleBytes            of an element, of a block
//   kRelativeScales                   whether scale bytes are relative to the segment's largest
//   kStochastic                       whether Code uses noise
//   Scale                             what coding and decoding a block need
//   Choose(block, max, n, &word) -> Scale   the encoder's scale; n: elements that are there
//   FromPlane(scales, block, base_exponent) -> Scale   the decoder's
//   Code(x, scale, noise_plus_one)    kCodeBits bits
//   Value(code, scale)
// A block of elements, wherever it is held, has Sum(term): of term(x, i) over its elements x at
// places i, in the order of block.h. Nothing here allocates, fails or blocks.
#pragma once

#include <bit>
#include <cstdint>

#include "common/base/host_device.h"
#include "common/codec/kernels/block.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::kernels {

constexpr uint32_t Magnitude(float x) { return std::bit_cast<uint32_t>(x) & kMagnitudeMask; }

// u + decay * error at one index, each operation rounded. `error` may be null.
LONGHAUL_HOST_DEVICE inline float WithError(float u, const float* error, float decay, int64_t at) {
  if (error == nullptr) return u;
  const float again = decay * error[at];
  return u + again;
}

// u = (values - minus) + decay * error at one index, each operation rounded. `minus` and `error`
// may be null.
LONGHAUL_HOST_DEVICE inline float InputAt(const float* values, const float* minus,
                                          const float* error, float decay, int64_t at) {
  float u = values[at];
  if (minus != nullptr) u = u - minus[at];
  return WithError(u, error, decay, at);
}

// Elements in plain memory; their number is a multiple of kLanes.
template <int kElements>
struct PlainValues {
  const float* u;

  template <typename Term>
  float Sum(Term term) const {
    float lanes[kLanes] = {};
    for (int i = 0; i < kElements; ++i) lanes[i % kLanes] += term(u[i], i);
    return SumLanes(lanes);
  }
};
using PlainBlock = PlainValues<kBlockElements>;

// Used with policies that need no noise.
struct NoNoise {
  constexpr float PlusOne(int) const { return 1; }
};

// Sum of ((u - value) * factor)^2 over the first `elements` of a block.
template <typename Policy, typename Block, typename Noise = NoNoise>
LONGHAUL_HOST_DEVICE float ErrorEnergy(const Block& block, const typename Policy::Scale& scale,
                                       float factor, int elements = kBlockElements,
                                       const Noise& noise = {}) {
  return block.Sum([&](float x, int i) {
    if (i >= elements) return 0.0f;
    const float lost = x - Policy::Value(Policy::Code(x, scale, noise.PlusOne(i)), scale);
    const float e = lost * factor;
    return e * e;
  });
}

template <typename Block>
LONGHAUL_HOST_DEVICE float SignalEnergy(const Block& block, float factor) {
  return block.Sum([&](float x, int) {
    const float scaled = x * factor;
    return scaled * scaled;
  });
}

}  // namespace longhaul::kernels
