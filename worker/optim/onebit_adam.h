// 1-bit Adam in host memory (Tang et al., arXiv 2102.02888, algorithm 1). First it is AdamW, bit for
// bit. Once its variance is frozen it is momentum SGD with a step for each element, and ranks exchange
// momentum, which may be compressed with error feedback, instead of gradients:
//
//   m_i = beta1 m + (1 - beta1) g_i          MakeMomentum, of each rank's own gradient
//   m = the compressed mean of m_i           the caller (CompressedAllReduce)
//   theta -= lr / (1 - beta1^t) m / (sqrt(v_F) / sqrt(1 - beta2^F) + eps)      Submit
//
// with AdamW's weight decay and, unlike the paper, its corrections of m and v for their beginning at
// zero, the latter as of the freeze: the steps do not jump there. An element whose variance was zero
// at the freeze had no gradient (a token that never occurred): it has no scale to step by, so it
// stays as it is but for weight decay, and callers that compress leave it out.
//
// Updates are settled when Submit returns. MakeMomentum may run beside Submit of other subgroups.
#pragma once

#include <vector>

#include "worker/optim/adamw.h"
#include "worker/optim/onebit_adam_options.h"
#include "worker/optim/optimizer.h"
#include "worker/optim/thread_team.h"

namespace longhaul {

class OneBitAdam : public Optimizer {
 public:
  // `team` works for Submit; may be null, else outlives the object.
  OneBitAdam(const OneBitAdamOptions& options, absl::Span<const SubgroupShape> subgroups,
             ThreadTeam* team = nullptr);

  const OneBitAdamOptions& options() const { return options_; }
  // After how many updates the variance was frozen. 0: it is not.
  int64_t frozen_at() const { return frozen_at_; }
  // Between two updates.
  void SetFrozenAt(int64_t updates) { frozen_at_ = updates; }
  absl::Span<const float> variance(int subgroup) {
    return adamw_.Wide(OptimizerState::kVariance, subgroup);
  }

  // gradients = beta1 m + (1 - beta1) scale gradients. Once the variance is frozen.
  void MakeMomentum(int subgroup, double scale, absl::Span<float> gradients);

  // While the variance is frozen `gradient_scale` counts for nothing, and a subgroup is submitted
  // with the averaged momentum for its gradients (float32).
  void Begin(const UpdateOptions& options) override;
  void Submit(const SubgroupUpdate& update) override;
  bool Settled(int) const override { return true; }
  absl::Status Finish() override { return absl::OkStatus(); }
  bool Keeps(OptimizerState state, int subgroup) const override {
    return adamw_.Keeps(state, subgroup);
  }
  void ReadState(OptimizerState state, int subgroup, int64_t first,
                 absl::Span<float> values) const override {
    adamw_.ReadState(state, subgroup, first, values);
  }
  void WriteState(OptimizerState state, int subgroup, int64_t first,
                  absl::Span<const float> values) override {
    adamw_.WriteState(state, subgroup, first, values);
  }
  int64_t updates() const override { return adamw_.updates(); }
  void SetUpdates(int64_t updates) override { adamw_.SetUpdates(updates); }
  int64_t state_bytes() const override { return adamw_.state_bytes(); }

 private:
  bool frozen() const { return frozen_at_ > 0 && options_.freeze_variance; }
  void StepByMomentum(const SubgroupUpdate& update);

  const OneBitAdamOptions options_;
  const std::vector<SubgroupShape> shapes_;
  ThreadTeam* const team_;
  AdamW adamw_;
  int64_t frozen_at_ = 0;
  // Of the update under way, while the variance is frozen.
  float keep_ = 1, step_size_ = 0, inverse_root_ = 1;
};

}  // namespace longhaul
