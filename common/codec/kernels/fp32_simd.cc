// The twin of fp32_scalar.cc in Highway, compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/kernels/fp32_simd.cc"
// clang-format off: before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include <cmath>
#include <cstring>

#include "common/codec/kernels/fp32_kernels.h"
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

HWY_INLINE Ints Magnitude(Floats x) {
  return hn::And(hn::BitCast(kInt, x), hn::Set(kInt, static_cast<int32_t>(kMagnitudeMask)));
}

HWY_INLINE float FloatAt(const uint8_t* bytes) {
  float result;
  std::memcpy(&result, bytes, sizeof(result));
  return result;
}

HWY_INLINE bool IsFiniteMax(Ints magnitude_max) {
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(kInt, magnitude_max))) <= kFiniteMax;
}

HWY_INLINE BlockResult MeasureBlock(const float* u) {
  BlockResult result;
  Ints magnitude_max = hn::Zero(kInt);
  for (size_t i = 0; i < kBlockElements; i += hn::Lanes(kFloat)) {
    magnitude_max = hn::Max(magnitude_max, Magnitude(hn::LoadU(kFloat, u + i)));
  }
  result.magnitude_max = hn::GetLane(hn::MaxOfLanes(kInt, magnitude_max));
  const Floats factor = hn::Set(kFloat, EnergyFactor(result.magnitude_max));
  alignas(64) float lanes[kLanes];
  for (size_t column = 0; column < kLanes; column += hn::Lanes(kFloat)) {
    Floats sum = hn::Zero(kFloat);
    for (size_t i = column; i < kBlockElements; i += kLanes) {
      const Floats x = hn::Mul(hn::LoadU(kFloat, u + i), factor);
      sum = hn::Add(sum, hn::Mul(x, x));
    }
    hn::Store(sum, kFloat, lanes + column);
  }
  result.signal_energy = Energy(SumLanesFast(lanes), result.magnitude_max);
  return result;
}

void Measure(absl::Span<const float> in, absl::Span<BlockResult> results) {
  for (size_t b = 0; b < results.size(); ++b)
    results[b] = MeasureBlock(in.data() + b * kBlockElements);
}

bool SumIsFinite(absl::Span<const float> in, absl::Span<const float> error) {
  const size_t lanes = hn::Lanes(kFloat), whole = in.size() - in.size() % lanes;
  Ints magnitude_max = hn::Zero(kInt);
  for (size_t i = 0; i < whole; i += lanes) {
    const Floats sum =
        hn::Add(hn::LoadU(kFloat, in.data() + i), hn::LoadU(kFloat, error.data() + i));
    magnitude_max = hn::Max(magnitude_max, Magnitude(sum));
  }
  bool finite = IsFiniteMax(magnitude_max);
  for (size_t i = whole; i < in.size(); ++i) finite = finite && std::isfinite(in[i] + error[i]);
  return finite;
}

bool IsFinite(absl::Span<const uint8_t> bytes) {
  const size_t width = hn::Lanes(kFloat) * sizeof(float),
               whole = bytes.size() - bytes.size() % width;
  Ints magnitude_max = hn::Zero(kInt);
  for (size_t i = 0; i < whole; i += width) {
    magnitude_max = hn::Max(magnitude_max, Magnitude(LoadBytes(kFloat, bytes.data() + i)));
  }
  bool finite = IsFiniteMax(magnitude_max);
  for (size_t i = whole; i < bytes.size(); i += sizeof(float)) {
    finite = finite && std::isfinite(FloatAt(bytes.data() + i));
  }
  return finite;
}

void Accumulate(absl::Span<const uint8_t> bytes, float weight, absl::Span<float> acc) {
  const size_t lanes = hn::Lanes(kFloat), whole = acc.size() - acc.size() % lanes;
  for (size_t i = 0; i < whole; i += lanes) {
    const Floats term =
        hn::Mul(hn::Set(kFloat, weight), LoadBytes(kFloat, bytes.data() + i * sizeof(float)));
    hn::StoreU(hn::Add(hn::LoadU(kFloat, acc.data() + i), term), kFloat, acc.data() + i);
  }
  for (size_t i = whole; i < acc.size(); ++i)
    acc[i] += weight * FloatAt(bytes.data() + i * sizeof(float));
}

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(Measure);
HWY_EXPORT(SumIsFinite);
HWY_EXPORT(IsFinite);
HWY_EXPORT(Accumulate);

const Fp32Kernels& Fp32SimdKernels() {
  static constexpr Fp32Kernels kernels = {
      .measure =
          [](absl::Span<const float> in, absl::Span<BlockResult> results) {
            HWY_DYNAMIC_DISPATCH(Measure)(in, results);
          },
      .sum_is_finite =
          [](absl::Span<const float> in, absl::Span<const float> error) {
            return HWY_DYNAMIC_DISPATCH(SumIsFinite)(in, error);
          },
      .is_finite =
          [](absl::Span<const uint8_t> bytes) { return HWY_DYNAMIC_DISPATCH(IsFinite)(bytes); },
      .accumulate =
          [](absl::Span<const uint8_t> bytes, float weight, absl::Span<float> acc) {
            HWY_DYNAMIC_DISPATCH(Accumulate)(bytes, weight, acc);
          },
  };
  return kernels;
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
