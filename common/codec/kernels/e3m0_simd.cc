// The Highway version of e3m0_scalar.cc, compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/kernels/e3m0_simd.cc"
// clang-format off: this must stand before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "common/codec/e3m0_format.h"
#include "common/codec/kernels/dense_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

using e3m0::Levels;

struct NearestLevel : HalfBytes {
  static constexpr bool kStochastic = false;
  using Scale = Levels;

  static HWY_INLINE Levels Choose(const Floats*, uint32_t magnitude_max, int, uint32_t* index) {
    *index = e3m0::NearestScale(magnitude_max);
    return e3m0::LevelsOf(*index);
  }
  static HWY_INLINE Levels FromPlane(const CodedRun& run, int64_t block) {
    return e3m0::LevelsOf(e3m0::ScaleOrigin(run.base_exponent) + run.scales[block]);
  }
  static HWY_INLINE Quantized Quantize(Floats x, const Levels& levels, Floats) {
    const Ints magnitude = Magnitude(x);
    const auto coded = hn::Gt(magnitude, hn::Set(kInt, levels.least - 1));
    const Ints steps =
        hn::ShiftRight<e3m0::kSignificandBits>(hn::Sub(magnitude, hn::Set(kInt, levels.step)));
    const Ints level = hn::Max(hn::Min(steps, hn::Set(kInt, 7)), hn::Set(kInt, 1));
    return Signed(x, level, coded, levels);
  }
  // The code and the value of a level in 1..7, or zero where `coded` is false.
  template <class Mask>
  static HWY_INLINE Quantized Signed(Floats x, Ints level, Mask coded, const Levels& levels) {
    const Ints shifted = hn::ShiftRight<28>(hn::BitCast(kInt, x));
    const Ints code = hn::OrAnd(level, shifted, hn::Set(kInt, 8));
    const Ints magnitude =
        hn::Add(hn::ShiftLeft<e3m0::kSignificandBits>(level), hn::Set(kInt, levels.origin));
    const Ints value = hn::IfThenElseZero(coded, hn::Or(SignOf(x), magnitude));
    return {hn::IfThenElseZero(coded, code), hn::BitCast(kFloat, value)};
  }
  static HWY_INLINE Floats Value(Ints code, const Levels& levels) {
    const Ints level = hn::And(code, hn::Set(kInt, levels.mask));
    const Ints magnitude =
        hn::Add(hn::ShiftLeft<e3m0::kSignificandBits>(level), hn::Set(kInt, levels.origin));
    const Ints sign = hn::ShiftLeft<28>(hn::And(code, hn::Set(kInt, 8)));
    const Ints value = hn::IfThenZeroElse(hn::Eq(level, hn::Zero(kInt)), magnitude);
    return hn::BitCast(kFloat, hn::Or(sign, value));
  }
};

struct SearchedLevel : NearestLevel {
  static HWY_INLINE Levels Choose(const Floats* u, uint32_t magnitude_max, int, uint32_t* index) {
    *index = e3m0::NearestScale(magnitude_max);
    if (*index != 0) *index = Search(u, *index, EnergyFactor(magnitude_max));
    return e3m0::LevelsOf(*index);
  }
  static HWY_INLINE uint32_t Search(const Floats* u, int32_t nearest, float factor) {
    const int32_t first = HWY_MAX(nearest - e3m0::kSearchBelow, e3m0::kScaleIndexMin);
    const int32_t last = HWY_MIN(nearest + e3m0::kSearchAbove, e3m0::kScaleIndexMax);
    int32_t best = first;
    float best_error = Error(u, first, factor);
    for (int32_t index = first + 1; index <= last; ++index) {
      const float error = Error(u, index, factor);
      if (error < best_error) {
        best = index;
        best_error = error;
      }
    }
    return best;
  }
  static HWY_INLINE float Error(const Floats* u, int32_t index, float factor) {
    return ErrorEnergy<NearestLevel>(u, e3m0::LevelsOf(index), factor, kBlockElements,
                                     BlockNoise());
  }
};

struct RandomLevel : NearestLevel {
  static constexpr bool kStochastic = true;
  // Everything in a block of zeros has level 0. So level 1 is the smallest integer, and the
  // threshold above which it begins is the greatest.
  static constexpr int32_t kAboveAll = 0x7f800000;
  static HWY_INLINE Levels Choose(const Floats*, uint32_t magnitude_max, int, uint32_t* index) {
    *index = e3m0::UpperScale(magnitude_max);
    Levels levels = e3m0::LevelsOf(*index);
    if (levels.mask == 0) levels.origin = kAboveAll;
    return levels;
  }
  static HWY_INLINE Quantized Quantize(Floats x, const Levels& levels, Floats plus_one) {
    const Ints origin = hn::Set(kInt, levels.origin);
    const Ints magnitude = Magnitude(x);
    const Ints octaves =
        hn::And(hn::Sub(magnitude, origin), hn::Set(kInt, ~e3m0::kSignificandMask));
    // Level 1.
    const Ints first = hn::Add(origin, hn::Set(kInt, 1 << e3m0::kSignificandBits));
    const Floats below = hn::BitCast(kFloat, hn::Max(hn::Add(origin, octaves), first));
    const Floats noise = hn::Sub(plus_one, hn::Set(kFloat, 1.0f));
    // The product is exact, so a fused multiply-add rounds as the definition does.
    const Floats moved = hn::MulAdd(below, noise, hn::BitCast(kFloat, magnitude));
    const Ints bits = hn::BitCast(kInt, moved);
    const Ints steps = hn::ShiftRight<e3m0::kSignificandBits>(hn::Sub(bits, origin));
    return Signed(x, hn::Min(steps, hn::Set(kInt, 7)),
                  hn::Gt(bits, hn::Sub(first, hn::Set(kInt, 1))), levels);
  }
};

}  // namespace

DenseKernels E3m0Nearest() { return KernelsOf<NearestLevel>(); }
DenseKernels E3m0Searched() { return KernelsOf<SearchedLevel>(); }
DenseKernels E3m0Stochastic() { return KernelsOf<RandomLevel>(); }

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(E3m0Nearest);
HWY_EXPORT(E3m0Searched);
HWY_EXPORT(E3m0Stochastic);

DenseKernels E3m0Simd(const CodecOptions& options) {
  if (options.search_scale) return HWY_DYNAMIC_DISPATCH(E3m0Searched)();
  if (options.stochastic) return HWY_DYNAMIC_DISPATCH(E3m0Stochastic)();
  return HWY_DYNAMIC_DISPATCH(E3m0Nearest)();
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
