// The Highway version of bf16_scalar.cc, compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/kernels/bf16_simd.cc"
// clang-format off: this must stand before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "common/codec/kernels/dense_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

// As many lanes as floats.
using HalfTag = hn::Rebind<uint16_t, FloatTag>;
constexpr HalfTag kHalf;

struct Bf16 {
  static constexpr int64_t kCodeBytes = kBlockElements * 2;
  static constexpr int32_t kCodeMax = 0x7f7f;
  static constexpr bool kStochastic = false;
  struct Scale {};
  static HWY_INLINE Scale Choose(const Floats*, uint32_t, int, uint32_t*) { return {}; }
  static HWY_INLINE Scale FromPlane(const CodedRun&, int64_t) { return {}; }
  // The code is the upper half of the value.
  static HWY_INLINE Quantized Quantize(Floats x, Scale, Floats) {
    const auto magnitude = hn::BitCast(kWord, Magnitude(x));
    const auto even = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(kWord, 1u));
    const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(kWord, 0x7fffu)), even);
    const auto finite = hn::Min(rounded, hn::Set(kWord, uint32_t{kCodeMax} << 16 | 0xffff));
    const auto upper = hn::And(finite, hn::Set(kWord, 0xffff0000u));
    const Ints bits = hn::Or(hn::BitCast(kInt, upper), SignOf(x));
    return {bits, hn::BitCast(kFloat, bits)};
  }
  static HWY_INLINE Floats Value(Ints code, Scale) { return hn::BitCast(kFloat, code); }
  struct Packer {
    HWY_INLINE void Put(Ints code, int row, int column, uint8_t* codes) {
      // The upper half has only 16 bits, so DemoteTo does not saturate.
      const auto half =
          hn::DemoteTo(kHalf, hn::BitCast(kInt, hn::ShiftRight<16>(hn::BitCast(kWord, code))));
      StoreBytes(half, kHalf, codes + (row * kLanes + column * kVectorLanes) * 2);
    }
    HWY_INLINE void Finish(uint8_t*) const {}
  };
  struct Unpacker {
    const uint8_t* codes;
    HWY_INLINE explicit Unpacker(const uint8_t* block) : codes(block) {}
    HWY_INLINE Ints Get(int row, int column) const {
      const auto half = LoadBytes(kHalf, codes + (row * kLanes + column * kVectorLanes) * 2);
      return hn::BitCast(kInt, hn::ShiftLeft<16>(hn::PromoteTo(kWord, half)));
    }
  };
};

}  // namespace

DenseKernels Bf16Nearest() { return KernelsOf<Bf16>(); }

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(Bf16Nearest);

DenseKernels Bf16Simd(const CodecOptions&) { return HWY_DYNAMIC_DISPATCH(Bf16Nearest)(); }

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
