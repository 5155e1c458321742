#include "worker/model/device_layers.h"

#include <cstdint>
#include <string>

#include "ATen/ops/empty_like.h"
#include "ATen/ops/linear.h"
#include "absl/status/status.h"
#include "c10/util/Exception.h"
#include "torch/csrc/autograd/custom_function.h"
#include "worker/model/device_stream.h"

namespace longhaul {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::tensor_list;

constexpr char kKernels[] = "kernels";

void Keep(AutogradContext& context, const BlockKernels& kernels) {
  context.saved_data[kKernels] = static_cast<int64_t>(reinterpret_cast<intptr_t>(&kernels));
}

const BlockKernels& KernelsOf(const AutogradContext& context) {
  return *reinterpret_cast<const BlockKernels*>(
      static_cast<intptr_t>(context.saved_data.at(kKernels).toInt()));
}

BlockElement ElementOf(const at::Tensor& x) {
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16,
              "the device's kernels take float32 and bfloat16");
  return x.scalar_type() == at::kFloat ? BlockElement::kFloat32 : BlockElement::kBFloat16;
}

at::Tensor Rotated(const BlockKernels& kernels, const at::Tensor& given_BHTW,
                   const at::Tensor& cos_TW, const at::Tensor& sin_TW, bool back) {
  // Dense in any order of the dimensions: the result has the same strides.
  const at::Tensor x = given_BHTW.is_non_overlapping_and_dense() && given_BHTW.stride(3) == 1
                           ? given_BHTW
                           : given_BHTW.contiguous();
  TORCH_CHECK(cos_TW.scalar_type() == at::kFloat && cos_TW.size(0) >= x.size(2) &&
                  cos_TW.size(1) == x.size(3) && cos_TW.is_contiguous() && sin_TW.is_contiguous(),
              "rotary tables of other positions, width or precision");
  at::Tensor out = at::empty_like(x);
  CheckLaunch(kernels.Rotate({.element = ElementOf(x),
                              .x = x.const_data_ptr(),
                              .out = out.mutable_data_ptr(),
                              .cos = cos_TW.const_data_ptr<float>(),
                              .sin = sin_TW.const_data_ptr<float>(),
                              .batches = static_cast<int32_t>(x.size(0)),
                              .heads = static_cast<int32_t>(x.size(1)),
                              .positions = static_cast<int32_t>(x.size(2)),
                              .width = static_cast<int32_t>(x.size(3)),
                              .batch_stride = x.stride(0),
                              .head_stride = x.stride(1),
                              .position_stride = x.stride(2),
                              .back = back},
                             CurrentStream(x.device())));
  return out;
}

// A rotation's gradient is the opposite rotation, so nothing but the tables is kept.
class RotateFunction : public Function<RotateFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_BHTW,
                            const at::Tensor& cos_TW, const at::Tensor& sin_TW,
                            const BlockKernels* kernels) {
    Keep(*context, *kernels);
    context->save_for_backward({cos_TW, sin_TW});
    return Rotated(*kernels, x_BHTW, cos_TW, sin_TW, /*back=*/false);
  }
  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    const auto tables = context->get_saved_variables();
    return {Rotated(KernelsOf(*context), gradients[0], tables[0], tables[1], /*back=*/true),
            {},
            {},
            {}};
  }
};

// silu(gate) * up. Keeps gate and up; the product and silu(gate) are computed again.
class GateFunction : public Function<GateFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given_gate,
                            const at::Tensor& given_up, const BlockKernels* kernels) {
    const at::Tensor gate = given_gate.contiguous(), up = given_up.contiguous();
    Keep(*context, *kernels);
    context->save_for_backward({gate, up});
    at::Tensor h = at::empty_like(gate);
    CheckLaunch(kernels->GateForward({.element = ElementOf(gate),
                                      .elements = gate.numel(),
                                      .gate = gate.const_data_ptr(),
                                      .up = up.const_data_ptr(),
                                      .h = h.mutable_data_ptr()},
                                     CurrentStream(gate.device())));
    return h;
  }
  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], of_h = gradients[0].contiguous();
    at::Tensor of_gate = at::empty_like(gate), of_up = at::empty_like(up);
    CheckLaunch(KernelsOf(*context).GateBackward({.element = ElementOf(gate),
                                                  .elements = gate.numel(),
                                                  .gate = gate.const_data_ptr(),
                                                  .up = up.const_data_ptr(),
                                                  .h_gradient = of_h.const_data_ptr(),
                                                  .gate_gradient = of_gate.mutable_data_ptr(),
                                                  .up_gradient = of_up.mutable_data_ptr()},
                                                 CurrentStream(gate.device())));
    return {of_gate, of_up, {}};
  }
};

}  // namespace

at::Tensor Rotate(const BlockKernels& kernels, const at::Tensor& x_BHTW,
                  const RotaryTables& tables) {
  return RotateFunction::apply(x_BHTW, tables.cos_TW, tables.sin_TW, &kernels);
}

at::Tensor SwiGlu(const BlockKernels& kernels, const at::Tensor& x_BTD, const at::Tensor& gate_FD,
                  const at::Tensor& up_FD, const at::Tensor& down_DF) {
  return at::linear(
      GateFunction::apply(at::linear(x_BTD, gate_FD), at::linear(x_BTD, up_FD), &kernels), down_DF);
}

}  // namespace longhaul
