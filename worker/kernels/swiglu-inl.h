// layer_kernels.cc includes it once for each instruction set.
#include "worker/kernels/exp-inl.h"
#include "worker/kernels/lanes-inl.h"
#include "worker/kernels/swiglu.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {

// 1 / sigmoid(z). From 88 on, the sigmoid is below the normal float32 numbers anyway.
template <class D, class V>
HWY_INLINE V InverseSigmoid(D d, V z) {
  return hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Min(hn::Neg(z), hn::Set(d, 88.0f))));
}

void GateRows(const float* gate_up, int64_t rows, int64_t width, float* h) {
  for (int64_t row = 0; row < rows; ++row, gate_up += 2 * width, h += width) {
    ForLanes(width, [&](auto d, int64_t i) HWY_ATTR {
      const auto gate = hn::LoadU(d, gate_up + i), up = hn::LoadU(d, gate_up + width + i);
      hn::StoreU(hn::Mul(hn::Div(gate, InverseSigmoid(d, gate)), up), d, h + i);
    });
  }
}

// With s = sigmoid(gate): silu' = s (1 + gate (1 - s)) = s + silu (1 - s).
void GateRowsBackward(const float* dh, const float* gate_up, int64_t rows, int64_t width,
                      float* dgate_up, float* h) {
  for (int64_t row = 0; row < rows; ++row) {
    ForLanes(width, [&](auto d, int64_t i) HWY_ATTR {
      const auto gate = hn::LoadU(d, gate_up + i), up = hn::LoadU(d, gate_up + width + i);
      const auto gradient = hn::LoadU(d, dh + i);
      const auto s = hn::Div(hn::Set(d, 1.0f), InverseSigmoid(d, gate));
      const auto silu = hn::Mul(gate, s);
      const auto slope = hn::MulAdd(silu, hn::Sub(hn::Set(d, 1.0f), s), s);
      hn::StoreU(hn::Mul(hn::Mul(gradient, up), slope), d, dgate_up + i);
      hn::StoreU(hn::Mul(gradient, silu), d, dgate_up + width + i);
      hn::StoreU(hn::Mul(silu, up), d, h + i);
    });
    dh += width;
    h += width;
    gate_up += 2 * width;
    dgate_up += 2 * width;
  }
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(GateRows);
HWY_EXPORT(GateRowsBackward);

void SwiGluForward(const float* gate_up, int64_t rows, int64_t width, float* h) {
  HWY_DYNAMIC_DISPATCH(GateRows)(gate_up, rows, width, h);
}

void SwiGluBackward(const float* dh, const float* gate_up, int64_t rows, int64_t width,
                    float* dgate_up, float* h) {
  HWY_DYNAMIC_DISPATCH(GateRowsBackward)(dh, gate_up, rows, width, dgate_up, h);
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
