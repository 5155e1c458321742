// 1-bit Adam in host memory (Tang et al., arXiv 2102.02888, algorithm 1). At first it is AdamW, bit
// for bit. Once its variance is frozen, it is momentum SGD with a step size for each element. Ranks
// then exchange momentum instead of gradients; the momentum may be compressed with error feedback:
//
//   m_i = beta1 m + (1 - beta1) g_i          MakeMomentum, of each rank's own gradient
//   m = the compressed mean of m_i           the caller (CompressedAllReduce)
//   theta -= lr / (1 - beta1^t) m / (sqrt(v_F) / sqrt(1 - beta2^F) + eps)      Submit
//
// F is the number of updates that changed v. The weight decay is that of AdamW. So are the bias
// corrections 1 - beta^t, which the paper leaves out: with them the steps do not jump at the
// freeze. An element whose variance is zero had no gradient before the freeze (a token that never
// occurred). No scale is known for its step: it only decays, and callers that compress leave it
// out.
//
// Two policies of 0/1 Adam (Lu et al., arXiv 2202.06009) go further, by option:
//
// - Its set T_v (VarianceSchedule): some updates after the freeze change the variance, by averaged
//   gradients: v = beta2 v + (1 - beta2) g^2 ;  m = beta1 m + (1 - beta1) g ;  then the step above.
// - Its set T_u (LocalStepSchedule, LocalSteps): once the variance is frozen for good, each rank
// steps by its
//   own gradient until the ranks synchronise.
//
// An update is settled when Submit returns. MakeMomentum may run on another thread beside Submit of
// other subgroups.
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
  // `team` computes in Submit, and outlives the object. Null: the calling thread does.
  OneBitAdam(const OneBitAdamOptions& options, absl::Span<const SubgroupShape> subgroups,
             ThreadTeam* team = nullptr);

  const OneBitAdamOptions& options() const { return options_; }
  // The variance was frozen after so many updates. 0: it is not frozen.
  int64_t frozen_at() const { return frozen_at_; }
  // Call between two updates.
  void SetFrozenAt(int64_t updates) { frozen_at_ = updates; }
  // Whether the variance is frozen, and the next update is one that changes it all the same (T_v).
  bool ChangesVarianceNext() const { return frozen() && schedule().Changes(updates() + 1); }
  absl::Span<const float> variance(int subgroup) {
    return adamw_.Wide(OptimizerState::kVariance, subgroup);
  }

  // gradients = beta1 m + (1 - beta1) scale gradients. Call only while the variance is frozen.
  void MakeMomentum(int subgroup, double scale, absl::Span<float> gradients);

  // --- Local steps.

  // Turns local steps off, for a pool of one rank: there they would be ordinary steps. Call before
  // the first update.
  void StepTogether() { together_ = true; }
  // Whether the next update is a local step.
  bool StepsLocallyNext() const { return StepsLocally(updates() + 1); }
  // Local steps since the ranks last held the same parameters. 0: they hold the same now.
  int64_t local_steps() const { return local_.taken(); }
  // Whether the schedule demands a synchronisation after the last update. Callers may synchronise
  // earlier: the next interval begins then.
  bool SynchronizationDue() const {
    return local_.taken() > 0 && local_.taken() >= local_schedule().Interval(updates());
  }
  // Whether the ranks have not synchronised yet.
  bool FirstSynchronization() const { return updates() - local_.taken() == local_schedule().after; }
  // u of LocalSteps: the steps of this rank.
  absl::Span<const float> accumulated(int subgroup) const { return local_.accumulated(subgroup); }
  // `update` has the averaged u as its gradients (float32). Parameters and momentum become the same
  // on all ranks. Call between two updates, once for each subgroup, then EndSynchronization.
  void Synchronize(const SubgroupUpdate& update);
  void EndSynchronization() { local_.End(); }

  // --- Optimizer.

  // While the variance is frozen, Submit takes the averaged momentum as the gradients (float32),
  // and ignores `gradient_scale`. In updates that change the variance it takes the averaged
  // gradients. In local steps it takes the rank's own gradients, scaled to estimate the mean.
  void Begin(const UpdateOptions& options) override;
  void Submit(const SubgroupUpdate& update) override;
  bool Settled(int) const override { return true; }
  absl::Status Finish() override { return absl::OkStatus(); }
  bool Keeps(OptimizerState state, int subgroup) const override {
    return adamw_.Keeps(state, subgroup);
  }
  absl::Status ReadState(OptimizerState state, int subgroup, int64_t first,
                         absl::Span<float> values) const override {
    return adamw_.ReadState(state, subgroup, first, values);
  }
  absl::Status WriteState(OptimizerState state, int subgroup, int64_t first,
                          absl::Span<const float> values) override {
    return adamw_.WriteState(state, subgroup, first, values);
  }
  int64_t updates() const override { return adamw_.updates(); }
  // Call between two updates. Forgets local steps that were not synchronised.
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
  // Each makes the momentum of elements [first, end) in an update after the freeze.
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
  // For the current update, while the variance is frozen.
  bool changes_variance_ = false, local_step_ = false;
  float scale_ = 1, keep_ = 1, step_size_ = 0, inverse_root_ = 1;
};

}  // namespace longhaul
