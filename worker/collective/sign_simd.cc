// The Highway version of sign_scalar.cc, compiled once for each instruction set. Elements before
// the first whole byte of signs, and after the last sixteen, use the scalar definition.
#include <algorithm>
#include <cstring>

#include "worker/collective/sign_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/collective/sign_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// At most sixteen lanes, so that a step of sixteen elements is a whole number of vectors.
constexpr hn::CappedTag<float, 16> kFloats;
constexpr hn::RebindToSigned<decltype(kFloats)> kInts;
constexpr hn::Rebind<double, hn::Half<decltype(kFloats)>> kDoubles;
using Floats = hn::Vec<decltype(kFloats)>;
using Doubles = hn::Vec<decltype(kDoubles)>;
constexpr int kStep = 16;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(kFloats));
constexpr int kVectors = kStep / kLanes;

HWY_INLINE double Halve(double* lanes) {
  for (int width = kStep / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

MagnitudeSums SimdAddFeedback(int64_t n, const float* values, float* feedback) {
  Doubles absolute[2 * kVectors], squared[2 * kVectors];
  for (int k = 0; k < 2 * kVectors; ++k) absolute[k] = squared[k] = hn::Zero(kDoubles);
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (int v = 0; v < kVectors; ++v) {
      float* at = feedback + i + v * kLanes;
      const Floats sum =
          hn::Add(hn::LoadU(kFloats, at), hn::LoadU(kFloats, values + (at - feedback)));
      hn::StoreU(sum, kFloats, at);
      const auto half = hn::Half<decltype(kFloats)>();
      const Doubles parts[] = {hn::PromoteTo(kDoubles, hn::LowerHalf(half, sum)),
                               hn::PromoteTo(kDoubles, hn::UpperHalf(half, sum))};
      for (int h = 0; h < 2; ++h) {
        absolute[2 * v + h] = hn::Add(absolute[2 * v + h], hn::Abs(parts[h]));
        squared[2 * v + h] = hn::Add(squared[2 * v + h], hn::Mul(parts[h], parts[h]));
      }
    }
  }
  double absolutes[kStep], squares[kStep];
  for (int k = 0; k < 2 * kVectors; ++k) {
    hn::StoreU(absolute[k], kDoubles, absolutes + k * kLanes / 2);
    hn::StoreU(squared[k], kDoubles, squares + k * kLanes / 2);
  }
  for (int lane = 0; i < n; ++i, ++lane) {
    feedback[i] += values[i];
    const double x = feedback[i];
    absolutes[lane] += x < 0 ? -x : x;
    squares[lane] += x * x;
  }
  return {Halve(absolutes), Halve(squares)};
}

// How many elements come before the first whole byte of signs.
HWY_INLINE int64_t Head(int64_t n, int first_bit) {
  return first_bit == 0 ? 0 : std::min<int64_t>(n, 8 - first_bit);
}

// scale with the signs of lanes [lane, lane + kLanes) of sixteen.
HWY_INLINE Floats Signed(Floats scale, uint32_t bits, int lane) {
  const auto lane_bit = hn::Shl(hn::Set(kInts, 1), hn::Iota(kInts, lane));
  const auto negative = hn::TestBit(hn::Set(kInts, static_cast<int32_t>(bits)), lane_bit);
  return hn::IfThenElse(hn::RebindMask(kFloats, negative), hn::Neg(scale), scale);
}

HWY_INLINE uint32_t Load(const uint8_t* signs) {
  uint16_t bits;
  std::memcpy(&bits, signs, sizeof(bits));
  return bits;
}

void SimdTakeSigns(int64_t n, float scale, float* feedback, uint8_t* signs, int first_bit) {
  int64_t i = Head(n, first_bit);
  sign_scalar::TakeSigns(i, scale, feedback, signs, first_bit);
  const Floats positive = hn::Set(kFloats, scale), zero = hn::Zero(kFloats);
  for (; i + kStep <= n; i += kStep) {
    uint32_t bits = 0;
    for (int v = 0; v < kVectors; ++v) {
      float* at = feedback + i + v * kLanes;
      const Floats x = hn::LoadU(kFloats, at);
      const auto negative = hn::Lt(x, zero);
      uint8_t packed[8] = {};
      hn::StoreMaskBits(kFloats, negative, packed);
      bits |= Load(packed) << (v * kLanes);
      hn::StoreU(hn::Sub(x, hn::IfThenElse(negative, hn::Neg(positive), positive)), kFloats, at);
    }
    const auto half = static_cast<uint16_t>(bits);
    std::memcpy(signs + (first_bit + i) / 8, &half, sizeof(half));
  }
  sign_scalar::TakeSigns(n - i, scale, feedback + i, signs + (first_bit + i) / 8,
                         static_cast<int>((first_bit + i) % 8));
}

void SimdAddSigns(int64_t n, float scale, const uint8_t* signs, int first_bit, float* out) {
  int64_t i = Head(n, first_bit);
  sign_scalar::AddSigns(i, scale, signs, first_bit, out);
  const Floats positive = hn::Set(kFloats, scale);
  for (; i + kStep <= n; i += kStep) {
    const uint32_t bits = Load(signs + (first_bit + i) / 8);
    for (int v = 0; v < kVectors; ++v) {
      float* at = out + i + v * kLanes;
      hn::StoreU(hn::Add(hn::LoadU(kFloats, at), Signed(positive, bits, v * kLanes)), kFloats, at);
    }
  }
  sign_scalar::AddSigns(n - i, scale, signs + (first_bit + i) / 8,
                        static_cast<int>((first_bit + i) % 8), out + i);
}

void SimdDecodeSigns(int64_t n, float scale, const uint8_t* signs, int first_bit, float* out) {
  int64_t i = Head(n, first_bit);
  sign_scalar::DecodeSigns(i, scale, signs, first_bit, out);
  const Floats positive = hn::Set(kFloats, scale);
  for (; i + kStep <= n; i += kStep) {
    const uint32_t bits = Load(signs + (first_bit + i) / 8);
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(Signed(positive, bits, v * kLanes), kFloats, out + i + v * kLanes);
  }
  sign_scalar::DecodeSigns(n - i, scale, signs + (first_bit + i) / 8,
                           static_cast<int>((first_bit + i) % 8), out + i);
}

}  // namespace
}  // namespace longhaul::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul {

HWY_EXPORT(SimdAddFeedback);
HWY_EXPORT(SimdTakeSigns);
HWY_EXPORT(SimdAddSigns);
HWY_EXPORT(SimdDecodeSigns);

MagnitudeSums AddFeedback(int64_t n, const float* values, float* feedback) {
  return HWY_DYNAMIC_DISPATCH(SimdAddFeedback)(n, values, feedback);
}

void TakeSigns(int64_t n, float scale, float* feedback, uint8_t* signs, int first_bit) {
  HWY_DYNAMIC_DISPATCH(SimdTakeSigns)(n, scale, feedback, signs, first_bit);
}

void AddSigns(int64_t n, float scale, const uint8_t* signs, int first_bit, float* out) {
  HWY_DYNAMIC_DISPATCH(SimdAddSigns)(n, scale, signs, first_bit, out);
}

void DecodeSigns(int64_t n, float scale, const uint8_t* signs, int first_bit, float* out) {
  HWY_DYNAMIC_DISPATCH(SimdDecodeSigns)(n, scale, signs, first_bit, out);
}

}  // namespace longhaul
#endif  // HWY_ONCE
