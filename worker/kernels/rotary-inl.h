// layer_kernels.cc includes it once for each instruction set.
#include "worker/kernels/lanes-inl.h"
#include "worker/kernels/rotary.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {

template <bool kBack>
HWY_INLINE void RotateHeads(float* x, int64_t heads, int64_t width, const float* cos,
                            const float* sin) {
  const int64_t half = width / 2;
  for (int64_t head = 0; head < heads; ++head, x += width) {
    ForLanes(half, [&](auto d, int64_t i) HWY_ATTR {
      const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + half + i);
      const auto c = hn::LoadU(d, cos + i);
      const auto loaded = hn::LoadU(d, sin + i);
      const auto s = kBack ? hn::Neg(loaded) : loaded;
      hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, x + i);
      hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, x + half + i);
    });
  }
}

void RotateForward(float* x, int64_t heads, int64_t width, const float* cos, const float* sin) {
  RotateHeads<false>(x, heads, width, cos, sin);
}
void RotateBackward(float* x, int64_t heads, int64_t width, const float* cos, const float* sin) {
  RotateHeads<true>(x, heads, width, cos, sin);
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(RotateForward);
HWY_EXPORT(RotateBackward);

void Rotate(float* x, int64_t heads, int64_t width, const float* cos, const float* sin) {
  HWY_DYNAMIC_DISPATCH(RotateForward)(x, heads, width, cos, sin);
}

void RotateBack(float* x, int64_t heads, int64_t width, const float* cos, const float* sin) {
  HWY_DYNAMIC_DISPATCH(RotateBackward)(x, heads, width, cos, sin);
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
