// The Highway version of sign1_scalar.cc, compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/kernels/sign1_simd.cc"
// clang-format off: this must stand before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "common/codec/kernels/dense_simd-inl.h"
#include "common/codec/sign1_format.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

struct LeastError {
  static constexpr int64_t kCodeBytes = kBlockElements / 8;
  static constexpr bool kStochastic = false;
  using Scale = float;

  static HWY_INLINE float Choose(const Floats* u, uint32_t magnitude_max, int elements,
                                 uint32_t* word) {
    const Floats factor = hn::Set(kFloat, EnergyFactor(magnitude_max));
    Floats sums[kColumns];
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < kVectors; ++v) {
      const Floats x = hn::Mul(hn::Abs(u[v]), factor);
      sums[v % kColumns] = v < kColumns ? x : hn::Add(sums[v % kColumns], x);
    }
    *word = sign1::MeanWord(SumColumns(sums), elements, magnitude_max);
    return scale_word::Value(*word);
  }
  static HWY_INLINE float FromPlane(const CodedRun& run, int64_t block) {
    uint16_t word;
    std::memcpy(&word, run.scales + block * scale_word::kBytes, sizeof(word));
    return scale_word::Value(word);
  }
  // The code is the sign bit, at the place that it has in the float.
  static HWY_INLINE Quantized Quantize(Floats x, float scale, Floats) {
    const Ints sign = SignOf(x);
    return {sign, Value(sign, scale)};
  }
  static HWY_INLINE Floats Value(Ints code, float scale) {
    return hn::Or(hn::BitCast(kFloat, code), hn::Set(kFloat, scale));
  }
  struct Packer {
    uint64_t halves[2] = {};
    HWY_INLINE void Put(Ints code, int row, int column, uint8_t*) {
      const uint64_t part = MaskBits(hn::Lt(code, hn::Zero(kInt)));
      halves[row / 4] |= part << (row % 4 * kLanes + column * kVectorLanes);
    }
    HWY_INLINE void Finish(uint8_t* codes) const { std::memcpy(codes, halves, sizeof(halves)); }
  };
  struct Unpacker {
    const uint8_t* codes;
    HWY_INLINE explicit Unpacker(const uint8_t* block) : codes(block) {}
    // The sign bit, at the place that it has in the float.
    HWY_INLINE Ints Get(int row, int column) const {
      uint16_t whole;
      std::memcpy(&whole, codes + row * 2, sizeof(whole));
      const Ints lane_bit = hn::Shl(hn::Set(kInt, 1), hn::Iota(kInt, column * kVectorLanes));
      const auto negative = hn::TestBit(hn::Set(kInt, static_cast<int32_t>(whole)), lane_bit);
      return hn::IfThenElseZero(negative, hn::Set(kInt, INT32_MIN));
    }
  };
};

struct RootMeanSquare : LeastError {
  static HWY_INLINE float Choose(const Floats* u, uint32_t magnitude_max, int elements,
                                 uint32_t* word) {
    const float energy = SignalEnergy(u, EnergyFactor(magnitude_max));
    *word = sign1::RootMeanSquareWord(energy, elements, magnitude_max);
    return scale_word::Value(*word);
  }
};

}  // namespace

DenseKernels Sign1Mean() { return KernelsOf<LeastError>(); }
DenseKernels Sign1Rms() { return KernelsOf<RootMeanSquare>(); }

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(Sign1Mean);
HWY_EXPORT(Sign1Rms);

DenseKernels Sign1Simd(const CodecOptions& options) {
  if (options.rms_scale) return HWY_DYNAMIC_DISPATCH(Sign1Rms)();
  return HWY_DYNAMIC_DISPATCH(Sign1Mean)();
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
