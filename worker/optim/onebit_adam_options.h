// Settings of 1-bit Adam (Tang et al., "1-bit Adam: communication efficient large-scale training
// with Adam's convergence speed", arXiv 2102.02888) and of 0/1 Adam's two policies (Lu et al.,
// arXiv 2202.06009). Pure values.
#pragma once

#include <cstdint>

#include "worker/collective/compressed_all_reduce.h"
#include "worker/optim/adamw_options.h"

namespace longhaul {

struct OneBitAdamOptions {
  // Moments must be float32.
  AdamWOptions adamw;
  // The variance is frozen after so many updates. 0: once its norm no longer falls, see
  // VarianceWatch, which uses the next two.
  int64_t freeze_step = 0;
  double freeze_ratio = 0.96;
  // The updates of the learning rate's warm-up.
  int64_t freeze_not_before = 0;
  // The variance policy of 0/1 Adam, see VarianceSchedule. 0: the variance stays frozen.
  int64_t var_update_scaler = 0;
  int64_t var_freeze_step = 0;
  // The local steps of 0/1 Adam, see LocalStepSchedule. 0: ranks exchange at every step. Together
  // with the variance policy, local steps begin when that ends, so var_freeze_step must be above 0.
  int64_t local_step_scaler = 0;
  int64_t local_step_clipper = 16;

  SignScale scale = SignScale::kRootMeanSquare;
  // At most so many elements share a scale. 0: all elements of a tensor do.
  int64_t scale_block = 0;

  // False only for comparisons, since the paper warns against both: compression without error
  // feedback, and Adam on compressed gradients without a frozen variance.
  bool error_feedback = true;
  bool freeze_variance = true;
};

}  // namespace longhaul
