// The Highway version of fp32_scalar.cc, compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/kernels/fp32_simd.cc"
// clang-format off: this must stand before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "common/codec/kernels/dense_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

struct Fp32 {
  static constexpr int64_t kCodeBytes = kBlockElements * 4;
  static constexpr bool kStochastic = false;
  struct Scale {};
  static HWY_INLINE Scale Choose(const Floats*, uint32_t, int, uint32_t*) { return {}; }
  static HWY_INLINE Scale FromPlane(const CodedRun&, int64_t) { return {}; }
  static HWY_INLINE Quantized Quantize(Floats x, Scale, Floats) {
    return {hn::BitCast(kInt, x), x};
  }
  static HWY_INLINE Floats Value(Ints code, Scale) { return hn::BitCast(kFloat, code); }
  struct Packer {
    HWY_INLINE void Put(Ints code, int row, int column, uint8_t* codes) {
      StoreBytes(code, kInt, codes + (row * kLanes + column * kVectorLanes) * 4);
    }
    HWY_INLINE void Finish(uint8_t*) const {}
  };
  struct Unpacker {
    const uint8_t* codes;
    HWY_INLINE explicit Unpacker(const uint8_t* block) : codes(block) {}
    HWY_INLINE Ints Get(int row, int column) const {
      return LoadBytes(kInt, codes + (row * kLanes + column * kVectorLanes) * 4);
    }
  };
};

}  // namespace

DenseKernels Fp32Exact() { return KernelsOf<Fp32>(); }

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(Fp32Exact);

DenseKernels Fp32Simd(const CodecOptions&) { return HWY_DYNAMIC_DISPATCH(Fp32Exact)(); }

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
