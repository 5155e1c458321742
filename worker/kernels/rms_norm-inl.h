// layer_kernels.cc includes it once for each instruction set.
#include <cmath>

#include "worker/kernels/lanes-inl.h"
#include "worker/kernels/rms_norm.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {

void NormRows(const float* x, const float* weight, double eps, int64_t rows, int64_t width,
              float* y, float* inverse_rms) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    const float squares = SumOf(width, [&](auto d, int64_t i) HWY_ATTR {
      const auto v = hn::LoadU(d, x + i);
      return hn::Mul(v, v);
    });
    const float r = 1.0f / std::sqrt(squares / static_cast<float>(width) + static_cast<float>(eps));
    inverse_rms[row] = r;
    ForLanes(width, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, r)), hn::LoadU(d, weight + i)), d,
                 y + i);
    });
  }
}

void NormRowsBackward(const float* dy, const float* x, const float* weight,
                      const float* inverse_rms, int64_t rows, int64_t width, RmsNormGradients g) {
  for (int64_t row = 0; row < rows; ++row) {
    const float r = inverse_rms[row];
    const float dot = SumOf(width, [&](auto d, int64_t i) HWY_ATTR {
      return hn::Mul(hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, weight + i)), hn::LoadU(d, x + i));
    });
    const float factor = r * r * r * dot / static_cast<float>(width);
    ForLanes(width, [&](auto d, int64_t i) HWY_ATTR {
      const auto v = hn::LoadU(d, x + i), w = hn::LoadU(d, weight + i), dv = hn::LoadU(d, dy + i);
      const auto normal = hn::Mul(v, hn::Set(d, r));
      const auto straight = hn::Mul(hn::Mul(w, dv), hn::Set(d, r));
      auto dx = hn::NegMulAdd(v, hn::Set(d, factor), straight);
      if (g.residual != nullptr) dx = hn::Add(dx, hn::LoadU(d, g.residual + i));
      hn::StoreU(dx, d, g.dx + i);
      hn::StoreU(hn::MulAdd(dv, normal, hn::LoadU(d, g.dweight + i)), d, g.dweight + i);
      if (g.y != nullptr) hn::StoreU(hn::Mul(normal, w), d, g.y + i);
    });
    dy += width;
    x += width;
    g.dx += width;
    if (g.residual != nullptr) g.residual += width;
    if (g.y != nullptr) g.y += width;
  }
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(NormRows);
HWY_EXPORT(NormRowsBackward);

void RmsNormForward(const float* x, const float* weight, double eps, int64_t rows, int64_t width,
                    float* y, float* inverse_rms) {
  HWY_DYNAMIC_DISPATCH(NormRows)(x, weight, eps, rows, width, y, inverse_rms);
}

void RmsNormBackward(const float* dy, const float* x, const float* weight, const float* inverse_rms,
                     int64_t rows, int64_t width, const RmsNormGradients& gradients) {
  HWY_DYNAMIC_DISPATCH(NormRowsBackward)(dy, x, weight, inverse_rms, rows, width, gradients);
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
