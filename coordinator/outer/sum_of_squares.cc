#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "coordinator/outer/sum_of_squares.cc"
// clang-format off: this must stand before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "coordinator/outer/squares-inl.h"
#include "coordinator/outer/sum_of_squares.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::HWY_NAMESPACE {
namespace {

double Squares(const float* values, size_t size) {
  SquareLanes squares;
  const size_t whole = size - size % kSquareLanes;
  for (size_t i = 0; i < whole; i += kSquareLanes) {
    for (size_t at = i; at < i + kSquareLanes; at += kStep)
      squares.Add(hn::LoadU(kFloat, values + at), at - i);
  }
  for (size_t i = whole; i < size; ++i) squares.AddOne(values[i], i - whole);
  return squares.Sum();
}

}  // namespace
}  // namespace longhaul::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul {

HWY_EXPORT(Squares);

double SumOfSquares(absl::Span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(Squares)(values.data(), values.size());
}

}  // namespace longhaul
#endif  // HWY_ONCE
