// Whether a job's outer parameters have got worse than guessing, by the evaluations of them; and
// when its guard acts.
//
// A value; not thread-safe. `now` must not go backwards.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/time/time.h"

namespace longhaul {

// The numbers are those of v1::DivergenceAction.
enum class DivergenceAction { kPause = 1, kFail = 2, kNone = 3 };

// Who pauses a job that its guard pauses (StorePause::by).
inline constexpr char kGuardName[] = "guard";
// The code of the fault of a job that its guard ends.
inline constexpr char kDivergedCode[] = "DIVERGED";

struct GuardOptions {
  DivergenceAction on_divergence = DivergenceAction::kNone;
  // From the first bad evaluation until the guard acts.
  absl::Duration after = absl::Seconds(20);
  // The loss of uniform guesses: ln(vocab). 0: not known; then a finite loss is never bad.
  double guess = 0;
};

// A loss that is not finite, or is well above `guess`. A model with drawn parameters is somewhat
// above it, which does not count.
bool IsWorseThanGuessing(double loss, double guess);
// "84.77 nats per token, and guessing has 5.55".
std::string LossInWords(double loss, double guess);

class Divergence {
 public:
  // Takes the evaluation of the outer parameters at this step. It is bad if it is worse than
  // guessing, unless it is the least so far and less than twice the loss of guessing. One of an
  // earlier step than before changes nothing. One of the same step takes the place of the one
  // before: pools repeat reports, and the last step has two.
  void Observe(const GuardOptions& options, int64_t step, double loss, absl::Time now);

  // The newest evaluation was bad; the one before, too.
  bool bad() const { return bad_ > 0; }
  bool lasts() const { return bad_ > 1; }
  // With bad(): when the first bad one of the row came, and what the newest says, for people.
  absl::Time since() const { return since_; }
  const std::string& words() const { return words_; }
  // When the guard acts if nothing changes. InfiniteFuture: it does not. A single bad evaluation
  // is no row.
  absl::Time ActsAt(const GuardOptions& options) const;

 private:
  // How many bad ones came in a row, and the step of the newest evaluation.
  int64_t bad_ = 0;
  int64_t step_ = -1;
  // Of those that were not bad.
  double least_ = std::numeric_limits<double>::infinity();
  absl::Time since_;
  std::string words_;
};

}  // namespace longhaul
