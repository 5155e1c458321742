// Vectors by Highway. The steps are elementwise, and their sums have a fixed order. So every
// instruction set gives the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "coordinator/outer/nesterov.cc"
// clang-format off: this must stand before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "common/base/check.h"
#include "common/base/read_ahead.h"
#include "coordinator/outer/nesterov.h"
#include "coordinator/outer/squares-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::HWY_NAMESPACE {
namespace {

constexpr size_t kAhead = kReadAheadBytes / sizeof(float);

double NesterovStep(float* gradient, float* momentum, size_t size, float lr, float mu) {
  const auto rate = hn::Set(kFloat, lr), decay = hn::Set(kFloat, mu);
  SquareLanes squares;
  const size_t whole = size - size % kSquareLanes;
  for (size_t i = 0; i < whole; i += kSquareLanes) {
    if (i % kAhead == 0) ReadAhead(momentum + i, i / kAhead);
    for (size_t at = i; at < i + kSquareLanes; at += kStep) {
      const auto g = hn::LoadU(kFloat, gradient + at);
      squares.Add(g, at - i);
      const auto buffer = hn::Add(hn::Mul(decay, hn::LoadU(kFloat, momentum + at)), g);
      hn::StoreU(buffer, kFloat, momentum + at);
      hn::StoreU(hn::Mul(rate, hn::Add(g, hn::Mul(decay, buffer))), kFloat, gradient + at);
    }
  }
  for (size_t i = whole; i < size; ++i) {
    squares.AddOne(gradient[i], i - whole);
    momentum[i] = mu * momentum[i] + gradient[i];
    gradient[i] = lr * (gradient[i] + mu * momentum[i]);
  }
  return squares.Sum();
}

}  // namespace
}  // namespace longhaul::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul {

HWY_EXPORT(NesterovStep);

double Nesterov::Step(absl::Span<float> gradient, absl::Span<float> momentum) const {
  LH_CHECK(gradient.size() == momentum.size(), "spans differ");
  return HWY_DYNAMIC_DISPATCH(NesterovStep)(gradient.data(), momentum.data(), gradient.size(), lr_,
                                            mu_);
}

}  // namespace longhaul
#endif  // HWY_ONCE
