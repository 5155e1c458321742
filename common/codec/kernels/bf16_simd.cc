// The twin of bf16_scalar.cc in Highway, compiled once for each instruction set. Vectors have up to
// 16 lanes, so that lane sums are those of the definition.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/kernels/bf16_simd.cc"
// clang-format off: before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "common/codec/kernels/bf16_element.h"
#include "common/codec/kernels/bf16_kernels.h"
#include "common/codec/kernels/vectors-inl.h"
#include "common/layout/fragment_layout.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, kLanes>;
using IntTag = hn::RebindToSigned<FloatTag>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
using CodeTag = hn::Rebind<uint16_t, FloatTag>;  // As many codes as floats.
using Floats = hn::Vec<FloatTag>;
using Ints = hn::Vec<IntTag>;
constexpr FloatTag kFloat;
constexpr IntTag kInt;
constexpr WordTag kWord;
constexpr CodeTag kCode;

HWY_INLINE Ints Magnitude(Floats x) {
  return hn::And(hn::BitCast(kInt, x), hn::Set(kInt, static_cast<int32_t>(kMagnitudeMask)));
}

// Codes, each in the upper half of its word.
HWY_INLINE hn::Vec<WordTag> Code(Floats x) {
  const auto magnitude = hn::BitCast(kWord, Magnitude(x));
  const auto sign = hn::AndNot(hn::Set(kWord, kMagnitudeMask), hn::BitCast(kWord, x));
  const auto even = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(kWord, 1u));
  const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(kWord, 0x7fffu)), even);
  const auto finite = hn::Min(rounded, hn::Set(kWord, kBf16FiniteMax << 16 | 0xffff));
  return hn::Or(sign, hn::And(finite, hn::Set(kWord, 0xffff0000u)));
}

HWY_INLINE void StoreCodes(hn::Vec<WordTag> words, uint8_t* codes) {
  StoreBytes(hn::DemoteTo(kCode, hn::BitCast(kInt, hn::ShiftRight<16>(words))), kCode, codes);
}

HWY_INLINE Floats LoadValues(const uint8_t* codes) {
  return hn::BitCast(kFloat, hn::ShiftLeft<16>(hn::PromoteTo(kWord, LoadBytes(kCode, codes))));
}

template <bool kFeedback>
HWY_INLINE BlockResult EncodeBlock(const float* u, float* error, uint8_t* codes) {
  BlockResult result;
  Ints magnitude_max = hn::Zero(kInt);
  for (size_t i = 0; i < kBlockElements; i += hn::Lanes(kFloat)) {
    magnitude_max = hn::Max(magnitude_max, Magnitude(hn::LoadU(kFloat, u + i)));
  }
  result.magnitude_max = hn::GetLane(hn::MaxOfLanes(kInt, magnitude_max));
  const Floats factor = hn::Set(kFloat, EnergyFactor(result.magnitude_max));
  alignas(64) float error_lanes[kLanes], signal_lanes[kLanes];
  for (size_t column = 0; column < kLanes; column += hn::Lanes(kFloat)) {
    Floats error_sum = hn::Zero(kFloat), signal_sum = hn::Zero(kFloat);
    for (size_t i = column; i < kBlockElements; i += kLanes) {
      const Floats x = hn::LoadU(kFloat, u + i);
      const auto code = Code(x);
      StoreCodes(code, codes + i * kBf16Bytes);
      const Floats lost = hn::Sub(x, hn::BitCast(kFloat, code));
      if (kFeedback) hn::StoreU(lost, kFloat, error + i);
      const Floats e = hn::Mul(lost, factor), s = hn::Mul(x, factor);
      error_sum = hn::Add(error_sum, hn::Mul(e, e));
      signal_sum = hn::Add(signal_sum, hn::Mul(s, s));
    }
    hn::Store(error_sum, kFloat, error_lanes + column);
    hn::Store(signal_sum, kFloat, signal_lanes + column);
  }
  result.error_energy = Energy(SumLanesFast(error_lanes), result.magnitude_max);
  result.signal_energy = Energy(SumLanesFast(signal_lanes), result.magnitude_max);
  return result;
}

void Encode(absl::Span<const float> in, absl::Span<uint8_t> codes,
            absl::Span<BlockResult> results) {
  for (size_t b = 0; b < results.size(); ++b) {
    const size_t first = b * kBlockElements;
    results[b] = EncodeBlock<false>(in.data() + first, nullptr, codes.data() + first * kBf16Bytes);
  }
}

void EncodeWithFeedback(absl::Span<const float> in, absl::Span<float> error,
                        absl::Span<uint8_t> codes, absl::Span<BlockResult> results) {
  alignas(64) float u[kBlockElements];
  for (size_t b = 0; b < results.size(); ++b) {
    const size_t first = b * kBlockElements;
    for (size_t i = 0; i < kBlockElements; i += hn::Lanes(kFloat)) {
      const Floats old = hn::LoadU(kFloat, error.data() + first + i);
      hn::Store(hn::Add(hn::LoadU(kFloat, in.data() + first + i), old), kFloat, u + i);
    }
    results[b] = EncodeBlock<true>(u, error.data() + first, codes.data() + first * kBf16Bytes);
  }
}

void Decode(absl::Span<const uint8_t> codes, absl::Span<float> out) {
  const size_t lanes = hn::Lanes(kFloat), whole = out.size() - out.size() % lanes;
  for (size_t i = 0; i < whole; i += lanes) {
    hn::StoreU(LoadValues(codes.data() + i * kBf16Bytes), kFloat, out.data() + i);
  }
  for (size_t i = whole; i < out.size(); ++i)
    out[i] = Bf16Value(LoadBf16(codes.data() + i * kBf16Bytes));
}

void Accumulate(absl::Span<const uint8_t> codes, float weight, absl::Span<float> acc) {
  const size_t lanes = hn::Lanes(kFloat), whole = acc.size() - acc.size() % lanes;
  for (size_t i = 0; i < whole; i += lanes) {
    const Floats term = hn::Mul(hn::Set(kFloat, weight), LoadValues(codes.data() + i * kBf16Bytes));
    hn::StoreU(hn::Add(hn::LoadU(kFloat, acc.data() + i), term), kFloat, acc.data() + i);
  }
  for (size_t i = whole; i < acc.size(); ++i) {
    acc[i] += weight * Bf16Value(LoadBf16(codes.data() + i * kBf16Bytes));
  }
}

bool IsFinite(absl::Span<const uint8_t> codes) {
  const size_t width = hn::Lanes(kFloat) * kBf16Bytes, whole = codes.size() - codes.size() % width;
  Ints magnitude_max = hn::Zero(kInt);
  for (size_t i = 0; i < whole; i += width) {
    magnitude_max = hn::Max(magnitude_max, Magnitude(LoadValues(codes.data() + i)));
  }
  bool finite =
      static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(kInt, magnitude_max))) <= kFiniteMax;
  for (size_t i = whole; i < codes.size(); i += kBf16Bytes) {
    finite = finite && Bf16IsFinite(LoadBf16(codes.data() + i));
  }
  return finite;
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
HWY_EXPORT(IsFinite);

const Bf16Kernels& Bf16SimdKernels() {
  static constexpr Bf16Kernels kernels = {
      .encode =
          [](absl::Span<const float> in, absl::Span<uint8_t> codes,
             absl::Span<BlockResult> results) {
            HWY_DYNAMIC_DISPATCH(Encode)
            (in, codes, results);
          },
      .encode_with_feedback =
          [](absl::Span<const float> in, absl::Span<float> error, absl::Span<uint8_t> codes,
             absl::Span<BlockResult> results) {
            HWY_DYNAMIC_DISPATCH(EncodeWithFeedback)(in, error, codes, results);
          },
      .decode =
          [](absl::Span<const uint8_t> codes, absl::Span<float> out) {
            HWY_DYNAMIC_DISPATCH(Decode)
            (codes, out);
          },
      .accumulate =
          [](absl::Span<const uint8_t> codes, float weight, absl::Span<float> acc) {
            HWY_DYNAMIC_DISPATCH(Accumulate)(codes, weight, acc);
          },
      .is_finite =
          [](absl::Span<const uint8_t> codes) { return HWY_DYNAMIC_DISPATCH(IsFinite)(codes); },
  };
  return kernels;
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
