// Gradients as one flat float32 buffer for each unit, laid out as the parameters. A tensor's first
// contribution of a step overwrites, later ones (tied weights) are added, so nothing has to be
// zeroed. Used from one thread. Throws as torch does.
#pragma once

#include <vector>

#include "ATen/core/Tensor.h"
#include "common/layout/model_layout.h"
#include "worker/model/model.h"

namespace longhaul {

class FlatGradients {
 public:
  FlatGradients(const ModelLayout& layout, at::Device device);

  void BeginStep();
  void Add(TensorRef tensor, const at::Tensor& gradient);
  // Completes a unit's buffer for this step: tensors without a contribution become zero.
  void Finish(int unit);
  const at::Tensor& unit(int unit) const { return units_[unit].flat; }

 private:
  struct Unit {
    at::Tensor flat;
    std::vector<at::Tensor> views;  // By tensor, in its shape.
    std::vector<bool> contributed;  // By tensor, in this step.
  };

  std::vector<Unit> units_;
};

}  // namespace longhaul
