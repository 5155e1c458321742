// AdamW by torch's own fused kernel, on any device: what a CUDA rank uses. The spans given to
// Update are device memory.
#pragma once

#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/optim/adamw_options.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

// Throws as torch does.
class TorchAdamW : public Optimizer {
 public:
  TorchAdamW(const AdamWOptions& options, absl::Span<const OptimizerRun> runs, at::Device device);

  void Begin(const UpdateOptions& options) override;
  void Update(int run, absl::Span<float> parameters, absl::Span<const float> gradients) override;
  absl::Span<float> Moments(Moment moment, int run) override;
  int64_t updates() const override { return begun_; }
  void SetUpdates(int64_t updates) override;

 private:
  struct State {
    bool decay;
    at::Tensor moment, variance;
  };

  AdamWOptions options_;
  std::vector<State> runs_;
  int64_t begun_ = 0;
  at::Tensor updates_;  // The same, a float scalar on the device, as the kernel wants it.
  UpdateOptions update_;
};

}  // namespace longhaul
