// The kernel uses no fused multiply-add. So every instruction set gives the same bits, and ranks on
// different machines stay equal.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/kernels/adamw_kernel.cc"
// clang-format off: before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "worker/kernels/adamw_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// How far ahead the kernel prefetches, in elements. Computing takes about as long as waiting for
// memory here, so the processor's own prefetching comes too late. Half or twice this distance was 3
// to 7 % slower. Slower, too, were: prefetching more (ReadAhead), blocks of one array at a time,
// and stores past the caches.
constexpr int64_t kAhead = 1024 / sizeof(float);
// From this size on the shadow is written past the caches: it would push out the rest, and nobody
// reads it soon.
constexpr int64_t kStreamElements = 1 << 20;

enum class Shadow { kNone, kCached, kStreamed };

template <class D>
using Words = hn::Vec<hn::RebindToUnsigned<D>>;

template <class D>
HWY_INLINE hn::Vec<D> ReadFloats(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> ReadFloats(D d, const uint16_t* from) {
  const hn::RebindToUnsigned<D> word;
  const auto bits = hn::PromoteTo(word, hn::LoadU(hn::Rebind<uint16_t, D>(), from));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

// Stores the upper 16 bits of `values` + `rounding`, added as integers.
template <class D, bool kStream = false>
HWY_INLINE void StoreNarrow(D, hn::Vec<D> values, Words<D> rounding, uint16_t* to) {
  const hn::RebindToUnsigned<D> word;
  const auto bits = hn::Add(hn::BitCast(word, values), rounding);
  const hn::Rebind<uint16_t, D> narrow;
  const auto half = hn::TruncateTo(narrow, hn::ShiftRight<16>(bits));
  if constexpr (kStream) {
    hn::Stream(half, narrow, to);
  } else {
    hn::StoreU(half, narrow, to);
  }
}

template <class D>
HWY_INLINE Words<D> ToNearestEven(D, hn::Vec<D> values) {
  const hn::RebindToUnsigned<D> word;
  const auto odd = hn::And(hn::ShiftRight<16>(hn::BitCast(word, values)), hn::Set(word, 1u));
  return hn::Add(odd, hn::Set(word, 0x7fffu));
}

// 32 bits that look random (steps of xxHash's avalanche).
template <class D>
HWY_INLINE Words<D> Noise(D, hn::Vec<D> gradient, hn::Vec<D> parameter, uint32_t of_update) {
  const hn::RebindToUnsigned<D> word;
  const auto p = hn::BitCast(word, parameter);
  const auto rotated = hn::Or(hn::ShiftLeft<13>(p), hn::ShiftRight<19>(p));
  auto x = hn::Add(hn::Add(hn::BitCast(word, gradient), rotated), hn::Set(word, of_update));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(word, 0x85ebca77u));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<13>(x)), hn::Set(word, 0xc2b2ae3du));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

// The arrays of one instantiation.
template <typename Gradient, typename Moment>
struct Pass {
  const Gradient* gradients;
  float* parameters;
  uint16_t* shadow;
  Moment *moment, *variance;
};

template <class D>
HWY_INLINE void StoreMoments(D d, hn::Vec<D> m, hn::Vec<D> v, hn::Vec<D>, hn::Vec<D>, uint32_t,
                             float* moment, float* variance) {
  hn::StoreU(m, d, moment);
  hn::StoreU(v, d, variance);
}
template <class D>
HWY_INLINE void StoreMoments(D d, hn::Vec<D> m, hn::Vec<D> v, hn::Vec<D> g, hn::Vec<D> p,
                             uint32_t of_update, uint16_t* moment, uint16_t* variance) {
  const hn::RebindToUnsigned<D> word;
  const auto noise = Noise(d, g, p, of_update);
  StoreNarrow(d, m, hn::ShiftRight<16>(noise), moment);
  StoreNarrow(d, v, hn::And(noise, hn::Set(word, 0xffffu)), variance);
}

// Algorithm 2 (adamw_options.h), in the order of AdamWStep: m and v (lines 7 and 8), then theta
// (line 12) by m_hat / (sqrt(v_hat) + eps) (lines 9 and 10), whose corrections are in step_size and
// inverse_root.
template <Shadow kShadow, class D, typename Gradient, typename Moment>
HWY_INLINE void UpdateLanes(D d, const AdamWConstants& c, int64_t i,
                            const Pass<Gradient, Moment>& a) {
  const auto g = hn::Mul(ReadFloats(d, a.gradients + i), hn::Set(d, c.gradient_scale));
  const auto m = hn::Add(hn::Mul(hn::Set(d, c.beta1), ReadFloats(d, a.moment + i)),
                         hn::Mul(hn::Set(d, c.one_minus_beta1), g));
  const auto v = hn::Add(hn::Mul(hn::Set(d, c.beta2), ReadFloats(d, a.variance + i)),
                         hn::Mul(hn::Set(d, c.one_minus_beta2), hn::Mul(g, g)));
  const auto denominator =
      hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, c.inverse_root)), hn::Set(d, c.eps));
  const auto before = hn::LoadU(d, a.parameters + i);
  const auto kept = hn::Mul(hn::Set(d, c.keep), before);
  const auto change = hn::Mul(hn::Set(d, c.step_size), hn::Div(m, denominator));
  const auto p = hn::Sub(kept, change);
  hn::StoreU(p, d, a.parameters + i);
  if constexpr (kShadow != Shadow::kNone) {
    StoreNarrow<D, kShadow == Shadow::kStreamed>(d, p, ToNearestEven(d, p), a.shadow + i);
  }
  StoreMoments(d, m, v, g, before, c.noise, a.moment + i, a.variance + i);
}

template <Shadow kShadow, typename Gradient, typename Moment>
void Run(const AdamWConstants& constants, int64_t n, const Pass<Gradient, Moment>& arrays) {
  // Local copies: the compiler then knows that stores to the arrays cannot change them.
  const AdamWConstants c = constants;
  const Pass<Gradient, Moment> a = arrays;
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> single;
  const auto lanes = static_cast<int64_t>(hn::Lanes(full));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hwy::Prefetch(a.gradients + i + kAhead);
    hwy::Prefetch(a.parameters + i + kAhead);
    hwy::Prefetch(a.moment + i + kAhead);
    hwy::Prefetch(a.variance + i + kAhead);
    UpdateLanes<kShadow>(full, c, i, a);
  }
  if constexpr (kShadow == Shadow::kStreamed) hwy::FlushStream();
  for (; i < n; ++i)
    UpdateLanes<kShadow == Shadow::kNone ? Shadow::kNone : Shadow::kCached>(single, c, i, a);
}

template <typename Gradient, typename Moment>
void ChooseShadow(const AdamWConstants& c, int64_t n, const AdamWArrays& a,
                  const Gradient* gradients, Moment* moment, Moment* variance) {
  const Pass<Gradient, Moment> pass{gradients, a.parameters, a.shadow, moment, variance};
  if (a.shadow == nullptr) return Run<Shadow::kNone>(c, n, pass);
  const bool aligned = reinterpret_cast<uintptr_t>(a.shadow) % 64 == 0;
  if (aligned && n >= kStreamElements) return Run<Shadow::kStreamed>(c, n, pass);
  Run<Shadow::kCached>(c, n, pass);
}

template <typename Gradient>
void ChooseMoments(const AdamWConstants& c, int64_t n, const AdamWArrays& a,
                   const Gradient* gradients) {
  if (a.moment != nullptr) {
    ChooseShadow(c, n, a, gradients, a.moment, a.variance);
  } else {
    ChooseShadow(c, n, a, gradients, a.narrow_moment, a.narrow_variance);
  }
}

void RunAdamW(const AdamWConstants& c, int64_t n, const AdamWArrays& a) {
  if (a.gradients != nullptr) {
    ChooseMoments(c, n, a, a.gradients);
  } else {
    ChooseMoments(c, n, a, a.narrow_gradients);
  }
}

}  // namespace
}  // namespace longhaul::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul {

HWY_EXPORT(RunAdamW);

void AdamWKernel(const AdamWConstants& constants, int64_t n, const AdamWArrays& arrays) {
  HWY_DYNAMIC_DISPATCH(RunAdamW)(constants, n, arrays);
}

}  // namespace longhaul
#endif  // HWY_ONCE
