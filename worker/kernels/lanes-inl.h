// The vector type of this folder's kernels, and loops over arrays, for each instruction set.
#include <cstdint>

#include "hwy/highway.h"

#if defined(LONGHAUL_WORKER_KERNELS_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGHAUL_WORKER_KERNELS_LANES_INL
#undef LONGHAUL_WORKER_KERNELS_LANES_INL
#else
#define LONGHAUL_WORKER_KERNELS_LANES_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using FloatVector = hn::Vec<FloatTag>;
constexpr FloatTag kFloat;
constexpr int kLanes = hn::MaxLanes(FloatTag());

// Calls visit(tag, i) for runs of elements [i, i + lanes of the tag), which together make up [0,
// n).
template <class Visit>
HWY_INLINE void ForLanes(int64_t n, Visit&& visit) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) visit(kFloat, i);
  if constexpr (kLanes > 8) {
    const hn::CappedTag<float, 8> eight;
    for (; i + 8 <= n; i += 8) visit(eight, i);
  }
  if constexpr (kLanes > 4) {
    const hn::CappedTag<float, 4> four;
    for (; i + 4 <= n; i += 4) visit(four, i);
  }
  if constexpr (kLanes > 1) {
    const hn::CappedTag<float, 1> one;
    for (; i < n; ++i) visit(one, i);
  }
}

// The sum of all elements of the vectors term(tag, i), for the runs of ForLanes.
template <class Term>
HWY_INLINE float SumOf(int64_t n, Term&& term) {
  FloatVector sum = hn::Zero(kFloat);
  float rest = 0;
  ForLanes(n, [&](auto d, int64_t i) HWY_ATTR {
    if constexpr (hn::MaxLanes(d) == kLanes) {
      sum = hn::Add(sum, term(d, i));
    } else {
      rest += hn::GetLane(hn::SumOfLanes(d, term(d, i)));
    }
  });
  return hn::GetLane(hn::SumOfLanes(kFloat, sum)) + rest;
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
