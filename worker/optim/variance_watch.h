// Decides when the warm-up of 1-bit Adam ends, if no step is given: once the 1-norm of the variance
// has become stable,
//   ||v_t||_1 / ||v_(t-D)||_1 >= freeze_ratio (0.96),  D = 1 / (1 - beta2)
// (1-bit Adam, arXiv 2102.02888), and the learning rate's warm-up is over. The rule is checked
// after every D updates. v is divided by its bias correction 1 - beta2^t. Without it v grows at
// first whatever the gradients do, and the rule would hold at once. Called from one thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/optim/onebit_adam_options.h"

namespace longhaul {

// The last check. 0 updates: there was none.
struct VarianceLook {
  int64_t updates = 0;
  // ||v||_1 after the bias correction.
  double norm = 0;
};

class VarianceWatch {
 public:
  explicit VarianceWatch(const OneBitAdamOptions& options)
      : beta2_(options.adamw.beta2),
        ratio_(options.freeze_ratio),
        not_before_(options.freeze_not_before) {}

  // D.
  int64_t window() const { return std::llround(1 / (1 - beta2_)); }
  // False a second time after the same update: a skipped step leaves the number of updates as it
  // is.
  bool Due(int64_t updates) const { return updates > last_.updates && updates % window() == 0; }
  // Whether the variance may be frozen. `norm` is ||v||_1 after `updates`, for which Due is true.
  bool Look(int64_t updates, double norm) {
    const double corrected = norm / (1 - std::pow(beta2_, static_cast<double>(updates)));
    const bool still = last_.updates > 0 && corrected >= ratio_ * last_.norm;
    last_ = {updates, corrected};
    return still && updates >= not_before_;
  }

  // The object's whole state, to be saved and restored.
  const VarianceLook& last() const { return last_; }
  void SetLast(const VarianceLook& last) { last_ = last; }

 private:
  const double beta2_, ratio_;
  const int64_t not_before_;
  VarianceLook last_;
};

}  // namespace longhaul
