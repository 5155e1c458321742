// AdamW in host memory: one fused pass that reads gradients, parameters and both moments once and
// writes the last three.
#pragma once

#include <vector>

#include "worker/optim/adamw_kernel.h"
#include "worker/optim/adamw_options.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

class AdamW : public Optimizer {
 public:
  AdamW(const AdamWOptions& options, absl::Span<const OptimizerRun> runs);

  void Begin(const UpdateOptions& options) override;
  void Update(int run, absl::Span<float> parameters, absl::Span<const float> gradients) override;
  absl::Span<float> Moments(Moment moment, int run) override;
  int64_t updates() const override { return updates_; }
  void SetUpdates(int64_t updates) override { updates_ = updates; }

 private:
  struct State {
    bool decay;
    std::vector<float> moment, variance;  // m and v of Algorithm 2.
  };

  AdamWOptions options_;
  std::vector<State> runs_;
  int64_t updates_ = 0;  // Begun so far: t of Algorithm 2.
  AdamWConstants constants_{};
};

}  // namespace longhaul
