// Writes a rank's reports (worker/agent/rank_report.h) to its agent, and its status once a second
// from a thread of its own. Thread-safe. A full pipe, whose agent does not read, costs progress and
// status lines, never training; evaluations and failures are waited with for a while.
#pragma once

#include <cstdint>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "longhaul/v1/pool.pb.h"
#include "worker/rank/rank_monitor.h"
#include "worker/session/rank_session.h"

namespace longhaul {

class RankReporter {
 public:
  // `descriptor`: of the pipe, which is not closed. `steps`: of the job; the last step's progress is
  // never held back. `monitor` outlives the object.
  RankReporter(int descriptor, int64_t steps, const RankMonitor* monitor);
  ~RankReporter();

  // At most five a second are written; Flush writes the newest, if it was not. Training thread.
  void Progress(const session::Progress& progress);
  void Flush();
  void Evaluation(const session::EvaluationResult& result);
  void Failure(const v1::JobError& fault);

 private:
  void Write(const v1::HeartbeatRequest& report, bool may_drop);
  void WriteLine(absl::string_view line, bool may_drop) ABSL_LOCKS_EXCLUDED(mutex_);

  const int descriptor_;
  const int64_t steps_;
  const RankMonitor* const monitor_;
  absl::Mutex mutex_;  // Of the pipe: a line at a time.
  // Training thread only.
  absl::Time next_ = absl::InfinitePast();
  std::optional<session::Progress> held_;
  std::jthread thread_;
};

// From now on a failed allocation on any thread of this process, where nobody can go on, reports a
// SITE_FAULT on that descriptor and ends the process with kRankFailed.
void ReportWhenMemoryEnds(int descriptor);

}  // namespace longhaul
