// 1-bit Adam in host memory (Tang et al., arXiv 2102.02888, algorithm 1). First it is AdamW, bit for
// bit. Once its variance is frozen it is momentum SGD with a step for each element, and ranks exchange
// momentum, which may be compressed with error feedback, instead of gradients:
//
//   m_i = beta1 m + (1 - beta1) g_i          MakeMomentum, of each rank's own gradient
//   m = the compressed mean of m_i           the caller (CompressedAllReduce)
//   theta -= lr / (1 - beta1^t) m / (sqrt(v_F) / sqrt(1 - beta2^F) + eps)      Submit
//
// The weight decay is AdamW's. So are the corrections of m and v for their beginning at zero, which the
// paper leaves out: with them the steps do not jump at the freeze. That of v is as of its last update.
// An element whose variance is zero then had no gradient so far (a token that never occurred). There is
// no scale to step by: it only decays, and callers that compress leave it out.
//
// Two policies of 0/1 Adam (Lu et al., arXiv 2202.06009) go further, by option:
//
// - Its set T_v (VarianceSchedule): single updates after the freeze change the variance, from reduced
//   gradients: v = beta2 v + (1 - beta2) g^2 ;  m = beta1 m + (1 - beta1) g ;  then the step above. F is
//   the number of updates that changed v.
// - Its set T_u (LocalStepSchedule, LocalSteps): once the variance is frozen for good, updates are local
//   steps by each rank's own gradient, until the ranks synchronise what they stepped.
//
// Updates are settled when Submit returns. MakeMomentum may run beside Submit of other subgroups.
#pragma once

#include <algorithm>
#include <vector>

#include "common/base/thread_team.h"
#include "worker/optim/adamw.h"
#include "worker/optim/local_step_schedule.h"
#include "worker/optim/local_steps.h"
#include "worker/optim/onebit_adam_options.h"
#include "worker/optim/optimizer.h"
#include "worker/optim/variance_schedule.h"

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
  // The next update changes the variance, which is frozen but for such ones.
  bool ChangesVarianceNext() const { return frozen() && schedule().Changes(updates() + 1); }
  absl::Span<const float> variance(int subgroup) {
    return adamw_.Wide(OptimizerState::kVariance, subgroup);
  }

  // gradients = beta1 m + (1 - beta1) scale gradients. Once the variance is frozen.
  void MakeMomentum(int subgroup, double scale, absl::Span<float> gradients);

  // --- Local steps.

  // No update is local: the pool has one rank, which has nobody to differ from. Before the first.
  void StepTogether() { together_ = true; }
  // The next update is a local step.
  bool StepsLocallyNext() const { return StepsLocally(updates() + 1); }
  // Local steps since the ranks last held the same. 0: they do.
  int64_t local_steps() const { return local_.taken(); }
  // By the schedule, after the last update. Callers may synchronise earlier: the next interval begins
  // then.
  bool SynchronizationDue() const {
    return local_.taken() > 0 && local_.taken() >= local_schedule().Interval(updates());
  }
  // The ranks have not synchronised before.
  bool FirstSynchronization() const { return updates() - local_.taken() == local_schedule().after; }
  // What this rank stepped: u of LocalSteps.
  absl::Span<const float> accumulated(int subgroup) const { return local_.accumulated(subgroup); }
  // With the averaged u for its gradients (float32): parameters and momentum become those of all ranks.
  // Between two updates. Each subgroup once; then EndSynchronization.
  void Synchronize(const SubgroupUpdate& update);
  void EndSynchronization() { local_.End(); }

  // --- Optimizer.

  // While the variance is frozen, a subgroup is submitted with the averaged momentum for its gradients
  // (float32), and `gradient_scale` counts for nothing. In updates that change the variance: with the
  // averaged gradients. In local steps: with the rank's own, scaled to be an estimate of the mean.
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
  // Between two updates; local steps that were not synchronised are forgotten.
  void SetUpdates(int64_t updates) override {
    adamw_.SetUpdates(updates);
    local_.End();
  }
  int64_t state_bytes() const override { return adamw_.state_bytes() + local_.state_bytes(); }

 private:
  bool frozen() const { return frozen_at_ > 0 && options_.freeze_variance; }
  VarianceSchedule schedule() const {
    return {.frozen_at = frozen_at_,
            .scaler = options_.var_update_scaler,
            .until = options_.var_freeze_step};
  }
  LocalStepSchedule local_schedule() const {
    const bool changing = options_.var_update_scaler > 0;
    return {.after = changing ? std::max(frozen_at_, options_.var_freeze_step) : frozen_at_,
            .scaler = options_.local_step_scaler,
            .clipper = options_.local_step_clipper};
  }
  bool StepsLocally(int64_t update) const {
    return frozen() && !together_ && local_schedule().Local(update);
  }
  FrozenScale frozen_scale(int subgroup) {
    return {.variance = variance(subgroup),
            .inverse_root = inverse_root_,
            .eps = static_cast<float>(options_.adamw.eps)};
  }
  // How an update after the freeze makes the momentum of some elements.
  void TakeMomentum(int subgroup, absl::Span<const float> momentum, int64_t first, int64_t end);
  void TakeGradients(int subgroup, absl::Span<const float> gradients, int64_t first, int64_t end);
  void TakeOwnGradients(int subgroup, absl::Span<const float> gradients, int64_t first,
                        int64_t end);
  void StepByMomentum(const SubgroupUpdate& update);
  void CheckSizes(const SubgroupUpdate& update) const;

  const OneBitAdamOptions options_;
  const std::vector<SubgroupShape> shapes_;
  ThreadTeam* const team_;
  AdamW adamw_;
  LocalSteps local_;
  bool together_ = false;
  int64_t frozen_at_ = 0;
  // Of the update under way, while the variance is frozen.
  bool changes_variance_ = false, local_step_ = false;
  float scale_ = 1, keep_ = 1, step_size_ = 0, inverse_root_ = 1;
};

}  // namespace longhaul
