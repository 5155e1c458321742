// The twin of e3m0_scalar.cc in Highway, compiled once for each instruction set. Loops run over
// columns: up to 16 lanes that hold elements column + 16 k of a block, so that lane sums and packed
// words are those of the definition for every vector length up to 16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/kernels/e3m0_simd.cc"
// clang-format off: before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "common/codec/e3m0_format.h"
#include "common/codec/kernels/e3m0_kernels.h"
#include "common/codec/kernels/vectors-inl.h"
#include "common/layout/fragment_layout.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, kLanes>;
using IntTag = hn::RebindToSigned<FloatTag>;
using Floats = hn::Vec<FloatTag>;
using Ints = hn::Vec<IntTag>;
constexpr FloatTag kFloat;
constexpr IntTag kInt;

constexpr int kRows = kBlockElements / kLanes;

struct Quantized {
  Ints code;
  Floats value;
};

HWY_INLINE Quantized Quantize(Floats x, const e3m0::Levels& levels) {
  const Ints bits = hn::BitCast(kInt, x);
  const Ints magnitude = hn::And(bits, hn::Set(kInt, static_cast<int32_t>(kMagnitudeMask)));
  const auto coded = hn::Gt(magnitude, hn::Set(kInt, levels.least - 1));
  const Ints steps =
      hn::ShiftRight<e3m0::kSignificandBits>(hn::Sub(magnitude, hn::Set(kInt, levels.step)));
  const Ints level = hn::Max(hn::Min(steps, hn::Set(kInt, 7)), hn::Set(kInt, 1));
  const Ints code = hn::Or(hn::And(hn::ShiftRight<28>(bits), hn::Set(kInt, 8)), level);
  const Ints value =
      hn::Or(hn::AndNot(hn::Set(kInt, static_cast<int32_t>(kMagnitudeMask)), bits),
             hn::Add(hn::ShiftLeft<e3m0::kSignificandBits>(level), hn::Set(kInt, levels.origin)));
  return {hn::IfThenElseZero(coded, code), hn::BitCast(kFloat, hn::IfThenElseZero(coded, value))};
}

HWY_INLINE uint32_t MagnitudeMax(const float* u) {
  Ints result = hn::Zero(kInt);
  for (size_t i = 0; i < kBlockElements; i += hn::Lanes(kFloat)) {
    const Ints bits = hn::BitCast(kInt, hn::LoadU(kFloat, u + i));
    result = hn::Max(result, hn::And(bits, hn::Set(kInt, static_cast<int32_t>(kMagnitudeMask))));
  }
  return hn::GetLane(hn::MaxOfLanes(kInt, result));
}

HWY_INLINE float ErrorEnergy(const float* u, const e3m0::Levels& levels, float factor) {
  alignas(64) float lanes[kLanes];
  for (size_t column = 0; column < kLanes; column += hn::Lanes(kFloat)) {
    Floats sum = hn::Zero(kFloat);
    HWY_UNROLL(8)
    for (int row = 0; row < kRows; ++row) {
      const Floats x = hn::LoadU(kFloat, u + row * kLanes + column);
      const Floats e = hn::Mul(hn::Sub(x, Quantize(x, levels).value), hn::Set(kFloat, factor));
      sum = hn::Add(sum, hn::Mul(e, e));
    }
    hn::Store(sum, kFloat, lanes + column);
  }
  return SumLanesFast(lanes);
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

template <bool kFeedback>
HWY_INLINE BlockResult EncodeBlock(const float* u, bool search, float* error, uint8_t* codes) {
  BlockResult result{.magnitude_max = MagnitudeMax(u)};
  const float factor = EnergyFactor(result.magnitude_max);
  result.scale_index = e3m0::NearestScale(result.magnitude_max);
  if (search && result.scale_index != 0)
    result.scale_index = SearchScale(u, result.scale_index, factor);

  const e3m0::Levels levels = e3m0::LevelsOf(result.scale_index);
  alignas(64) float error_lanes[kLanes], signal_lanes[kLanes];
  for (size_t column = 0; column < kLanes; column += hn::Lanes(kFloat)) {
    Ints word = hn::Zero(kInt);
    Floats error_sum = hn::Zero(kFloat), signal_sum = hn::Zero(kFloat);
    HWY_UNROLL(8)
    for (int row = 0; row < kRows; ++row) {
      const Floats x = hn::LoadU(kFloat, u + row * kLanes + column);
      const Quantized q = Quantize(x, levels);
      word = hn::Or(word, hn::ShiftLeftSame(q.code, row * 4));
      const Floats lost = hn::Sub(x, q.value);
      if (kFeedback) hn::StoreU(lost, kFloat, error + row * kLanes + column);
      const Floats e = hn::Mul(lost, hn::Set(kFloat, factor)),
                   s = hn::Mul(x, hn::Set(kFloat, factor));
      error_sum = hn::Add(error_sum, hn::Mul(e, e));
      signal_sum = hn::Add(signal_sum, hn::Mul(s, s));
    }
    StoreBytes(word, kInt, codes + column * sizeof(int32_t));
    hn::Store(error_sum, kFloat, error_lanes + column);
    hn::Store(signal_sum, kFloat, signal_lanes + column);
  }
  result.error_energy = Energy(SumLanesFast(error_lanes), result.magnitude_max);
  result.signal_energy = Energy(SumLanesFast(signal_lanes), result.magnitude_max);
  return result;
}

void Encode(absl::Span<const float> in, bool search, absl::Span<uint8_t> codes,
            absl::Span<BlockResult> results) {
  for (size_t b = 0; b < results.size(); ++b) {
    const float* u = in.data() + b * kBlockElements;
    results[b] =
        EncodeBlock<false>(u, search, nullptr, codes.data() + b * e3m0::kCodeBytesPerBlock);
  }
}

void EncodeWithFeedback(absl::Span<const float> in, absl::Span<float> error, bool search,
                        absl::Span<uint8_t> codes, absl::Span<BlockResult> results) {
  alignas(64) float u[kBlockElements];
  for (size_t b = 0; b < results.size(); ++b) {
    const float* block_in = in.data() + b * kBlockElements;
    float* block_error = error.data() + b * kBlockElements;
    for (size_t i = 0; i < kBlockElements; i += hn::Lanes(kFloat)) {
      hn::Store(hn::Add(hn::LoadU(kFloat, block_in + i), hn::LoadU(kFloat, block_error + i)),
                kFloat, u + i);
    }
    results[b] =
        EncodeBlock<true>(u, search, block_error, codes.data() + b * e3m0::kCodeBytesPerBlock);
  }
}

// Value of the codes at bits 4 * row of each word.
HWY_INLINE Floats Value(Ints words, int row, const e3m0::Levels& levels) {
  const Ints codes = hn::ShiftRightSame(words, row * 4);
  const Ints level = hn::And(codes, hn::Set(kInt, levels.mask));
  const Ints magnitude =
      hn::Add(hn::ShiftLeft<e3m0::kSignificandBits>(level), hn::Set(kInt, levels.origin));
  const Ints sign = hn::ShiftLeft<28>(hn::And(codes, hn::Set(kInt, 8)));
  return hn::BitCast(kFloat,
                     hn::Or(sign, hn::IfThenZeroElse(hn::Eq(level, hn::Zero(kInt)), magnitude)));
}

void Decode(int32_t base_exponent, absl::Span<const uint8_t> codes,
            absl::Span<const uint8_t> scales, absl::Span<float> out) {
  const int32_t origin = e3m0::ScaleOrigin(base_exponent);
  for (size_t b = 0; b < scales.size(); ++b) {
    const e3m0::Levels levels = e3m0::LevelsOf(origin + scales[b]);
    const uint8_t* block_codes = codes.data() + b * e3m0::kCodeBytesPerBlock;
    float* block = out.data() + b * kBlockElements;
    for (size_t column = 0; column < kLanes; column += hn::Lanes(kFloat)) {
      const Ints words = LoadBytes(kInt, block_codes + column * sizeof(int32_t));
      for (int row = 0; row < kRows; ++row) {
        hn::StoreU(Value(words, row, levels), kFloat, block + row * kLanes + column);
      }
    }
  }
}

void Accumulate(int32_t base_exponent, absl::Span<const uint8_t> codes,
                absl::Span<const uint8_t> scales, float weight, absl::Span<float> acc) {
  const int32_t origin = e3m0::ScaleOrigin(base_exponent);
  for (size_t b = 0; b < scales.size(); ++b) {
    const e3m0::Levels levels = e3m0::LevelsOf(origin + scales[b]);
    const uint8_t* block_codes = codes.data() + b * e3m0::kCodeBytesPerBlock;
    float* block = acc.data() + b * kBlockElements;
    for (size_t column = 0; column < kLanes; column += hn::Lanes(kFloat)) {
      const Ints words = LoadBytes(kInt, block_codes + column * sizeof(int32_t));
      for (int row = 0; row < kRows; ++row) {
        float* p = block + row * kLanes + column;
        const Floats term = hn::Mul(hn::Set(kFloat, weight), Value(words, row, levels));
        hn::StoreU(hn::Add(hn::LoadU(kFloat, p), term), kFloat, p);
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(Encode);
HWY_EXPORT(EncodeWithFeedback);
HWY_EXPORT(Decode);
HWY_EXPORT(Accumulate);

const E3m0Kernels& E3m0SimdKernels() {
  static constexpr E3m0Kernels kernels = {
      .encode =
          [](absl::Span<const float> in, bool search, absl::Span<uint8_t> codes,
             absl::Span<BlockResult> results) {
            HWY_DYNAMIC_DISPATCH(Encode)(in, search, codes, results);
          },
      .encode_with_feedback =
          [](absl::Span<const float> in, absl::Span<float> error, bool search,
             absl::Span<uint8_t> codes, absl::Span<BlockResult> results) {
            HWY_DYNAMIC_DISPATCH(EncodeWithFeedback)(in, error, search, codes, results);
          },
      .decode =
          [](int32_t base_exponent, absl::Span<const uint8_t> codes,
             absl::Span<const uint8_t> scales, absl::Span<float> out) {
            HWY_DYNAMIC_DISPATCH(Decode)(base_exponent, codes, scales, out);
          },
      .accumulate =
          [](int32_t base_exponent, absl::Span<const uint8_t> codes,
             absl::Span<const uint8_t> scales, float weight, absl::Span<float> acc) {
            HWY_DYNAMIC_DISPATCH(Accumulate)(base_exponent, codes, scales, weight, acc);
          },
  };
  return kernels;
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
