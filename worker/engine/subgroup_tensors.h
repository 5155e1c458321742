// The spans of an optimizer as tensors. All throw as torch does.
#pragma once

#include <type_traits>

#include "ATen/core/Tensor.h"
#include "ATen/ops/from_blob.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

// A tensor that uses the span's memory, which lies on `device`. T is float, or uint16_t for the
// bits of bf16 numbers.
template <typename T>
at::Tensor TensorOf(absl::Span<T> span, at::Device device) {
  using Value = std::remove_const_t<T>;
  static_assert(std::is_same_v<Value, float> || std::is_same_v<Value, uint16_t>);
  const int64_t sizes[] = {static_cast<int64_t>(span.size())};
  return at::for_blob(const_cast<Value*>(span.data()), sizes)
      .options(c10::TensorOptions(std::is_same_v<Value, float> ? at::kFloat : at::kBFloat16)
                   .device(device))
      .target_device(device)
      .make_tensor();
}

// The gradient of an update in float32, and the same scaled. The result may use the update's
// memory: do not write to it.
inline at::Tensor GradientOf(const SubgroupUpdate& update, at::Device device) {
  return update.gradients.empty() ? TensorOf(update.narrow_gradients, device).to(at::kFloat)
                                  : TensorOf(update.gradients, device);
}
inline at::Tensor ScaledGradient(const SubgroupUpdate& update, double scale, at::Device device) {
  const at::Tensor gradient = GradientOf(update, device);
  return scale == 1 ? gradient : gradient.mul(scale);
}

}  // namespace longhaul
