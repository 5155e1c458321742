// When 1-bit Adam's warm-up may end by itself: once the 1-norm of the variance no longer falls,
//   ||v_t||_1 / ||v_(t-D)||_1 >= 0.96,  D = 1 / (1 - beta2)
// (1-bit Adam, arXiv 2102.02888), and the learning rate's warm-up is over. Looked at
// after every D updates. v is corrected for its beginning at zero: else it grows at first whatever
// the gradients do, and the rule holds at once.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/optim/onebit_adam_options.h"

namespace longhaul {

// What was seen last. No updates: nothing yet.
struct VarianceLook {
  int64_t updates = 0;
  double norm = 0;  // Corrected.
};

class VarianceWatch {
 public:
  explicit VarianceWatch(const OneBitAdamOptions& options)
      : beta2_(options.adamw.beta2),
        ratio_(options.freeze_ratio),
        not_before_(options.freeze_not_before) {}

  // Updates between two looks.
  int64_t window() const { return std::llround(1 / (1 - beta2_)); }
  // Not twice after the same update: a step may be skipped.
  bool Due(int64_t updates) const { return updates > last_.updates && updates % window() == 0; }
  // `norm`: ||v||_1 after so many updates, which are Due. Whether the variance may be frozen.
  bool Look(int64_t updates, double norm) {
    const double corrected = norm / (1 - std::pow(beta2_, static_cast<double>(updates)));
    const bool still = last_.updates > 0 && corrected >= ratio_ * last_.norm;
    last_ = {updates, corrected};
    return still && updates >= not_before_;
  }

  // All that it remembers.
  const VarianceLook& last() const { return last_; }
  void SetLast(const VarianceLook& last) { last_ = last; }

 private:
  const double beta2_, ratio_;
  const int64_t not_before_;
  VarianceLook last_;
};

}  // namespace longhaul
