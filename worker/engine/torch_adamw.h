// AdamW with torch's own fused kernel, on any device. Ranks on CUDA use it. The spans of an update
// are memory of the device. Subgroups are settled by Finish, with one call of the kernel for all
// that share a setting: many small kernels take longer to launch than to run. Gradients that must
// be scaled are copied first; then there is a call for each kScaledElements of them, to bound the
// copies. Called from one thread.
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
  bool Settled(int subgroup) const override { return !subgroups_[subgroup].submitted; }
  absl::Status Finish() override;
  bool Keeps(OptimizerState, int) const override { return true; }
  absl::Status ReadState(OptimizerState state, int subgroup, int64_t first,
                         absl::Span<float> values) const override;
  absl::Status WriteState(OptimizerState state, int subgroup, int64_t first,
                          absl::Span<const float> values) override;
  int64_t updates() const override { return begun_; }
  void SetUpdates(int64_t updates) override;
  int64_t state_bytes() const override;

 private:
  static constexpr int64_t kScaledElements = int64_t{1} << 26;

  struct State {
    bool decay;
    at::Tensor moment, variance;
    // In the current update.
    bool submitted = false;
  };

  void UpdateAll(absl::Span<const SubgroupUpdate> updates, bool decay);

  AdamWOptions options_;
  std::vector<State> subgroups_;
  int64_t begun_ = 0;
  // begun_ as a float scalar on the device, for the kernel.
  at::Tensor updates_;
  UpdateOptions update_;
  std::vector<SubgroupUpdate> submitted_;
};

}  // namespace longhaul
