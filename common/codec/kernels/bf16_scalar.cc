// The meaning of bf16 in plain code.
#include "common/codec/kernels/bf16_element.h"
#include "common/codec/kernels/bf16_kernels.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::kernels {
namespace {

// `error`, unless null, gets what the codes lose.
BlockResult EncodeBlock(const float* u, float* error, uint8_t* codes) {
  BlockResult result;
  for (int i = 0; i < kBlockElements; ++i) {
    result.magnitude_max =
        std::max(result.magnitude_max, std::bit_cast<uint32_t>(u[i]) & kMagnitudeMask);
  }
  const float factor = EnergyFactor(result.magnitude_max);
  float error_lanes[kLanes] = {}, signal_lanes[kLanes] = {};
  for (int i = 0; i < kBlockElements; ++i) {
    const uint16_t code = Bf16Code(u[i]);
    std::memcpy(codes + i * kBf16Bytes, &code, kBf16Bytes);
    const float lost = u[i] - Bf16Value(code);
    const float e = lost * factor, x = u[i] * factor;
    error_lanes[i % kLanes] += e * e;
    signal_lanes[i % kLanes] += x * x;
    if (error != nullptr) error[i] = lost;
  }
  result.error_energy = Energy(SumLanes(error_lanes), result.magnitude_max);
  result.signal_energy = Energy(SumLanes(signal_lanes), result.magnitude_max);
  return result;
}

void Encode(absl::Span<const float> in, absl::Span<uint8_t> codes,
            absl::Span<BlockResult> results) {
  for (size_t b = 0; b < results.size(); ++b) {
    results[b] =
        EncodeBlock(&in[b * kBlockElements], nullptr, &codes[b * kBlockElements * kBf16Bytes]);
  }
}

void EncodeWithFeedback(absl::Span<const float> in, absl::Span<float> error,
                        absl::Span<uint8_t> codes, absl::Span<BlockResult> results) {
  for (size_t b = 0; b < results.size(); ++b) {
    const size_t first = b * kBlockElements;
    float u[kBlockElements];
    for (int i = 0; i < kBlockElements; ++i) u[i] = in[first + i] + error[first + i];
    results[b] = EncodeBlock(u, &error[first], &codes[first * kBf16Bytes]);
  }
}

void Decode(absl::Span<const uint8_t> codes, absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = Bf16Value(LoadBf16(&codes[i * kBf16Bytes]));
}

void Accumulate(absl::Span<const uint8_t> codes, float weight, absl::Span<float> acc) {
  for (size_t i = 0; i < acc.size(); ++i)
    acc[i] += weight * Bf16Value(LoadBf16(&codes[i * kBf16Bytes]));
}

bool IsFinite(absl::Span<const uint8_t> codes) {
  for (size_t i = 0; i < codes.size(); i += kBf16Bytes) {
    if (!Bf16IsFinite(LoadBf16(&codes[i]))) return false;
  }
  return true;
}

}  // namespace

const Bf16Kernels& Bf16ScalarKernels() {
  static constexpr Bf16Kernels kernels = {Encode, EncodeWithFeedback, Decode, Accumulate, IsFinite};
  return kernels;
}

}  // namespace longhaul::kernels
