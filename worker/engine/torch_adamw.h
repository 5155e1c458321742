// AdamW by torch's own fused kernel, on any device: what a CUDA rank uses. The spans of an update
// are memory of the device.
#pragma once

#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/optim/adamw_options.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

// Throws as torch does.
class TorchAdamW : public Optimizer {
 public:
  // Moments are float32.
  TorchAdamW(const AdamWOptions& options, absl::Span<const SubgroupShape> subgroups,
             at::Device device);

  void Begin(const UpdateOptions& options) override;
  void Submit(const SubgroupUpdate& update) override;
  bool Settled(int) const override { return true; }
  absl::Status Finish() override { return absl::OkStatus(); }
  bool Keeps(OptimizerState, int) const override { return true; }
  void ReadState(OptimizerState state, int subgroup, int64_t first,
                 absl::Span<float> values) const override;
  void WriteState(OptimizerState state, int subgroup, int64_t first,
                  absl::Span<const float> values) override;
  int64_t updates() const override { return begun_; }
  void SetUpdates(int64_t updates) override;
  int64_t state_bytes() const override;

 private:
  struct State {
    bool decay;
    at::Tensor moment, variance;
  };

  AdamWOptions options_;
  std::vector<State> subgroups_;
  int64_t begun_ = 0;
  at::Tensor updates_;  // The same, a float scalar on the device, as the kernel wants it.
  UpdateOptions update_;
};

}  // namespace longhaul
