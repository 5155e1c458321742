// The meaning of sign1 (common/codec/sign1_format.h).
#include "common/codec/kernels/dense_scalar.h"
#include "common/codec/sign1_format.h"

namespace longhaul::kernels {
namespace {

struct LeastError {
  static constexpr int64_t kCodeBytes = kBlockElements / 8;
  static constexpr bool kStochastic = false;
  using Scale = float;

  static float Sum(const float* u, float factor) {
    float lanes[kLanes] = {};
    for (int i = 0; i < kBlockElements; ++i)
      lanes[i % kLanes] += std::bit_cast<float>(scalar::Magnitude(u[i])) * factor;
    return SumLanes(lanes);
  }
  static float Choose(const float* u, uint32_t magnitude_max, int elements, uint32_t* word) {
    *word = sign1::MeanWord(Sum(u, EnergyFactor(magnitude_max)), elements, magnitude_max);
    return scale_word::Value(*word);
  }
  static float FromPlane(const CodedRun& run, int64_t block) {
    return scale_word::Value(scalar::LoadAs<uint16_t>(run.scales + block * scale_word::kBytes));
  }
  static uint32_t Code(float x, float, float) { return std::bit_cast<uint32_t>(x) >> 31; }
  static float Value(uint32_t code, float scale) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(scale) | code << 31);
  }
  static void Put(uint8_t* codes, int i, uint32_t code) { codes[i / 8] |= code << i % 8; }
  static uint32_t Get(const uint8_t* codes, int i) { return codes[i / 8] >> i % 8 & 1; }
};

struct RootMeanSquare : LeastError {
  static float Choose(const float* u, uint32_t magnitude_max, int elements, uint32_t* word) {
    const float energy = scalar::SignalEnergy(u, EnergyFactor(magnitude_max));
    *word = sign1::RootMeanSquareWord(energy, elements, magnitude_max);
    return scale_word::Value(*word);
  }
};

}  // namespace

DenseKernels Sign1Scalar(const CodecOptions& options) {
  if (options.rms_scale) return scalar::KernelsOf<RootMeanSquare>();
  return scalar::KernelsOf<LeastError>();
}

}  // namespace longhaul::kernels
