// Shows the progress of a job to people: on a terminal a bar that is drawn again and again, else a
// line now and then.
#pragma once

#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "coordinator/cli/environment.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::cli {

// "RUNNING  step 1200/6000  loss 2.3141  eval 2.4012  42.1k tokens/s  up 12.3 MiB  down 12.3 MiB
// ETA 3m20s": what is not known yet is left out; while something is awaited it is named. The ETA
// follows from the time that the steps so far took, without pauses. Pools that are set aside are
// named.
std::string ProgressText(const v1::Job& job, absl::Time now);

// The bar and the most important parts of that text that fit in so many columns. On 20 columns the
// bar alone.
std::string ProgressLine(const v1::Job& job, absl::Time now, int columns);

// Not thread-safe.
class Progress {
 public:
  // What is passed must outlive this object. `terminal`: null, or where bars are drawn.
  Progress(std::ostream& out, const Terminal* terminal) : out_(out), terminal_(terminal) {}

  // On a terminal each call redraws; otherwise a line is written for a new state, a new evaluation,
  // a new reason to wait, other pools set aside, and else every 5 s.
  void Show(const v1::Job& job, absl::Time now);
  // A line of its own ("connection lost").
  void Note(const std::string& line);
  // Leaves the bar on the screen and begins a new line.
  void Finish();

 private:
  std::ostream& out_;
  const Terminal* const terminal_;
  // The cursor is behind a bar.
  bool drawn_ = false;
  absl::Time shown_at_ = absl::InfinitePast();
  // State, evaluations and reason of the newest line.
  std::string shown_;
};

}  // namespace longhaul::cli
