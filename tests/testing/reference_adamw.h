// Algorithm 2 of "Decoupled weight decay regularization" (Loshchilov and Hutter), line by line,
// with moments in double. Tests compare the fast implementations with it.
#pragma once

#include <cmath>
#include <vector>

#include "worker/optim/adamw_options.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

class ReferenceAdamW {
 public:
  ReferenceAdamW(const AdamWOptions& options, absl::Span<const SubgroupShape> subgroups)
      : o_(options) {
    for (const SubgroupShape& shape : subgroups) {
      m_.emplace_back(shape.elements);
      v_.emplace_back(shape.elements);
      decay_.push_back(shape.decay ? options.weight_decay : 0);
    }
  }

  void Begin(const UpdateOptions& options) {
    ++t_;
    update_ = options;
  }

  void Update(int subgroup, absl::Span<float> parameters, absl::Span<const float> gradients) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const double g = gradients[i] * update_.gradient_scale;
      double& m = m_[subgroup][i];
      double& v = v_[subgroup][i];
      m = o_.beta1 * m + (1 - o_.beta1) * g;                  // line 7
      v = o_.beta2 * v + (1 - o_.beta2) * g * g;              // line 8
      const double m_hat = m / (1 - std::pow(o_.beta1, t_));  // line 9
      const double v_hat = v / (1 - std::pow(o_.beta2, t_));  // line 10
      const double theta = parameters[i];
      const double change = m_hat / (std::sqrt(v_hat) + o_.eps) + decay_[subgroup] * theta;
      parameters[i] = static_cast<float>(theta - update_.learning_rate * change);  // line 12
    }
  }

 private:
  AdamWOptions o_;
  std::vector<std::vector<double>> m_, v_;
  std::vector<double> decay_;
  UpdateOptions update_;
  int t_ = 0;
};

}  // namespace longhaul
