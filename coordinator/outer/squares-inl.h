// The sum of squares of sum_of_squares.h, with vectors. Included once for each instruction set.
#if defined(LONGHAUL_COORDINATOR_OUTER_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGHAUL_COORDINATOR_OUTER_SQUARES_INL_H_
#undef LONGHAUL_COORDINATOR_OUTER_SQUARES_INL_H_
#else
#define LONGHAUL_COORDINATOR_OUTER_SQUARES_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kSquareLanes = 16;

// As many floats as a vector has doubles.
using DoubleTag = hn::CappedTag<double, kSquareLanes>;
using FloatTag = hn::Rebind<float, DoubleTag>;
constexpr DoubleTag kDouble;
constexpr FloatTag kFloat;
constexpr size_t kStep = hn::MaxLanes(kDouble);

// 16 lane sums in double: lane i sums the elements i + 16 k.
class SquareLanes {
 public:
  HWY_INLINE SquareLanes() {
    HWY_UNROLL(16)
    for (auto& lanes : lanes_) lanes = hn::Zero(kDouble);
  }
  // Adds the elements of the lanes [lane, lane + kStep). The square of a float is exact in double,
  // so a fused multiply-add rounds as two operations do.
  HWY_INLINE void Add(hn::Vec<FloatTag> x, size_t lane) {
    const auto wide = hn::PromoteTo(kDouble, x);
    lanes_[lane / kStep] = hn::MulAdd(wide, wide, lanes_[lane / kStep]);
  }
  // Adds the element of one lane, after the last whole group.
  HWY_INLINE void AddOne(double x, size_t lane) { rest_[lane] = x * x; }
  // Sums the lanes by halving: lane += lane + 8, + 4, + 2, + 1.
  HWY_INLINE double Sum() const {
    double sums[kSquareLanes];
    for (size_t v = 0; v < kSquareLanes / kStep; ++v)
      hn::StoreU(lanes_[v], kDouble, sums + v * kStep);
    for (size_t lane = 0; lane < kSquareLanes; ++lane) sums[lane] += rest_[lane];
    for (size_t width = kSquareLanes / 2; width > 0; width /= 2) {
      for (size_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
    }
    return sums[0];
  }

 private:
  hn::Vec<DoubleTag> lanes_[kSquareLanes / kStep];
  double rest_[kSquareLanes] = {};
};

}  // namespace
}  // namespace longhaul::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
