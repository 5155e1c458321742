// Settings of 1-bit Adam (Tang et al., "1-bit Adam: communication efficient large-scale training with
// Adam's convergence speed", arXiv 2102.02888) and of 0/1 Adam's two policies (Lu et al., arXiv
// 2202.06009). Pure values.
#pragma once

#include <cstdint>

#include "worker/collective/compressed_all_reduce.h"
#include "worker/optim/adamw_options.h"

namespace longhaul {

struct OneBitAdamOptions {
  AdamWOptions adamw;  // Of the warm-up; float32 moments.
  // How many updates are Adam's before the variance is frozen. 0: until its norm stands still, see
  // VarianceWatch.
  int64_t freeze_step = 0;
  double freeze_ratio = 0.96;
  int64_t freeze_not_before = 0;  // With freeze_ratio: the learning rate's warm-up.
  // The variance policy of 0/1 Adam, see VarianceSchedule. 0: the variance stays frozen.
  int64_t var_update_scaler = 0;
  int64_t var_freeze_step = 0;
  // The local steps of 0/1 Adam, see LocalStepSchedule. 0: ranks exchange at every step. With the
  // variance policy they begin at its end, so that var_freeze_step must be above 0.
  int64_t local_step_scaler = 0;
  int64_t local_step_clipper = 16;

  SignScale scale = SignScale::kRootMeanSquare;
  int64_t scale_block = 0;  // Elements that share a scale at most. 0: those of a tensor.

  // What the paper warns of, for comparisons alone: no error feedback; Adam of compressed gradients
  // instead of a frozen variance.
  bool error_feedback = true;
  bool freeze_variance = true;
};

}  // namespace longhaul
