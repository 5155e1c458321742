#include "coordinator/job/divergence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

namespace longhaul {
namespace {

// What a model with drawn parameters may have above guessing, as a share.
constexpr double kMargin = 0.1;
// Training from drawn parameters never has so many times the loss of guessing.
constexpr double kFarAbove = 2;

}  // namespace

bool IsWorseThanGuessing(double loss, double guess) {
  return !std::isfinite(loss) || (guess > 0 && loss > (1 + kMargin) * guess);
}

std::string LossInWords(double loss, double guess) {
  std::string words = std::isfinite(loss) ? absl::StrFormat("%.4g nats per token", loss)
                                          : std::string("not a finite number");
  if (std::isfinite(loss) && guess > 0)
    absl::StrAppendFormat(&words, ", and guessing has %.4g", guess);
  return words;
}

void Divergence::Observe(const GuardOptions& options, int64_t step, double loss, absl::Time now) {
  if (step < step_) return;
  const bool again = step == std::exchange(step_, step);
  // A model with drawn parameters may begin above guessing, and comes down.
  const bool improves = std::isfinite(loss) && loss <= kFarAbove * options.guess &&
                        (loss <= least_ || (again && bad_ == 0));
  if (!IsWorseThanGuessing(loss, options.guess) || improves) {
    least_ = std::min(least_, loss);
    bad_ = 0;
    return;
  }
  if (bad_ == 0) since_ = now;
  if (bad_ == 0 || !again) ++bad_;
  words_ = absl::StrFormat(
      "training diverged: the held-out loss of the outer parameters at step %d is %s", step,
      LossInWords(loss, options.guess));
}

absl::Time Divergence::ActsAt(const GuardOptions& options) const {
  if (options.on_divergence == DivergenceAction::kNone || bad_ < 2) return absl::InfiniteFuture();
  return since_ + options.after;
}

}  // namespace longhaul
