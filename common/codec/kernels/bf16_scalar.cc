// The meaning of bf16: the upper half of bits(x) + 0x7fff + (bit 16 of x), rounded to nearest even
// in integers, so that denormals survive; what would round to Inf becomes the largest finite bf16.
#include "common/codec/kernels/dense_scalar.h"

namespace longhaul::kernels {
namespace {

struct Bf16 {
  static constexpr int64_t kCodeBytes = kBlockElements * 2;
  static constexpr uint32_t kCodeMax = 0x7f7f;
  static constexpr bool kStochastic = false;
  struct Scale {};
  static Scale Choose(const float*, uint32_t, int, uint32_t*) { return {}; }
  static Scale FromPlane(const CodedRun&, int64_t) { return {}; }
  static uint16_t Code(float x, Scale, float) {
    const uint32_t magnitude = scalar::Magnitude(x);
    const uint32_t rounded = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;
    return (std::bit_cast<uint32_t>(x) >> 31 << 15) | std::min(rounded, kCodeMax);
  }
  static float Value(uint16_t code, Scale) { return std::bit_cast<float>(uint32_t{code} << 16); }
  static void Put(uint8_t* codes, int i, uint16_t code) { std::memcpy(codes + i * 2, &code, 2); }
  static uint16_t Get(const uint8_t* codes, int i) {
    return scalar::LoadAs<uint16_t>(codes + i * 2);
  }
};

}  // namespace

DenseKernels Bf16Scalar(const CodecOptions&) { return scalar::KernelsOf<Bf16>(); }

}  // namespace longhaul::kernels
