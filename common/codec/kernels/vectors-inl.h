// What the SIMD kernels share: vectors to and from bytes of any alignment, and the sum of lanes.
// Included once for each instruction set.
#if defined(LONGHAUL_COMMON_CODEC_KERNELS_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGHAUL_COMMON_CODEC_KERNELS_VECTORS_INL_H_
#undef LONGHAUL_COMMON_CODEC_KERNELS_VECTORS_INL_H_
#else
#define LONGHAUL_COMMON_CODEC_KERNELS_VECTORS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "common/codec/kernels/block.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {

// As many elements as D has lanes.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> LoadBytes(D d, const uint8_t* bytes) {
#if HWY_TARGET == HWY_SCALAR  // One lane, which cannot be seen as bytes.
  hwy::HWY_NAMESPACE::TFromD<D> value;
  std::memcpy(&value, bytes, sizeof(value));
  return hwy::HWY_NAMESPACE::Set(d, value);
#else
  const hwy::HWY_NAMESPACE::Repartition<uint8_t, D> byte;
  return hwy::HWY_NAMESPACE::BitCast(d, hwy::HWY_NAMESPACE::LoadU(byte, bytes));
#endif
}

template <class D>
HWY_INLINE void StoreBytes(hwy::HWY_NAMESPACE::Vec<D> v, D d, uint8_t* bytes) {
#if HWY_TARGET == HWY_SCALAR
  const auto value = hwy::HWY_NAMESPACE::GetLane(v);
  std::memcpy(bytes, &value, sizeof(value));
#else
  const hwy::HWY_NAMESPACE::Repartition<uint8_t, D> byte;
  hwy::HWY_NAMESPACE::StoreU(hwy::HWY_NAMESPACE::BitCast(byte, v), byte, bytes);
#endif
}

// SumLanes() of block.h for aligned lanes.
HWY_INLINE float SumLanesFast(float* lanes) {
#if HWY_TARGET == HWY_SCALAR
  return SumLanes(lanes);
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<float, 4> d;
  const auto low = hn::Add(hn::Load(d, lanes), hn::Load(d, lanes + 8));
  const auto high = hn::Add(hn::Load(d, lanes + 4), hn::Load(d, lanes + 12));
  const auto four = hn::Add(low, high);
  const auto two = hn::Add(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Add(two, hn::Shuffle2301(two)));
#endif
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
