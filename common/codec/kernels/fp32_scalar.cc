// The meaning of fp32: the floats themselves.
#include "common/codec/kernels/dense_scalar.h"

namespace longhaul::kernels {
namespace {

struct Fp32 {
  static constexpr int64_t kCodeBytes = kBlockElements * 4;
  static constexpr bool kStochastic = false;
  struct Scale {};
  static Scale Choose(const float*, uint32_t, int, uint32_t*) { return {}; }
  static Scale FromPlane(const CodedRun&, int64_t) { return {}; }
  static float Code(float x, Scale, float) { return x; }
  static float Value(float code, Scale) { return code; }
  static void Put(uint8_t* codes, int i, float code) { std::memcpy(codes + i * 4, &code, 4); }
  static float Get(const uint8_t* codes, int i) { return scalar::LoadAs<float>(codes + i * 4); }
};

}  // namespace

DenseKernels Fp32Scalar(const CodecOptions&) { return scalar::KernelsOf<Fp32>(); }

}  // namespace longhaul::kernels
