// The exponential of this folder's kernels, for each instruction set. Highway's needs twice as many
// instructions, since it is defined for subnormal results, too.
#include "hwy/highway.h"

#if defined(LONGHAUL_WORKER_KERNELS_EXP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGHAUL_WORKER_KERNELS_EXP_INL
#undef LONGHAUL_WORKER_KERNELS_EXP_INL
#else
#define LONGHAUL_WORKER_KERNELS_EXP_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// exp(x) to within 2.5e-7 of its value, for x up to 88. Below -87 it is 0, for any NaN it is a NaN,
// and exp(0) is 1. With x = n ln(2) + r, |r| <= ln(2) / 2: 2^n times a polynomial in r, whose
// largest relative error is the least for its degree.
template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  const hn::RebindToSigned<D> whole;
  // Adding it rounds to an integer, which is then in the low bits.
  const auto magic = hn::Set(d, 0x1.8p23f);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 0x1.715476p+0f), magic);
  const auto n = hn::Sub(shifted, magic);
  // ln(2) in two parts. The product with the first is exact.
  const auto r =
      hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x));
  auto p = hn::MulAdd(hn::Set(d, 0x1.0f9f9cp-7f), r, hn::Set(d, 0x1.573a1ap-5f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.555a80p-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.fffdc6p-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.fffff6p-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto bits = hn::Add(hn::BitCast(whole, p), hn::ShiftLeft<23>(hn::BitCast(whole, shifted)));
  // The payload of a NaN may have made a number of it; 0 times r brings it back.
  const auto value = hn::MulAdd(r, hn::Zero(d), hn::BitCast(d, bits));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), value);
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
