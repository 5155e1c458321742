// Writes a rank's reports (worker/agent/rank_report.h) to its agent, and once a second its status,
// from its own thread. Thread-safe. If the agent does not read and the pipe is full, progress and
// status lines are dropped, so that training never waits. For evaluations and failures the calls
// wait for some time before they drop the line.
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
#include "worker/session/session_observer.h"

namespace longhaul {

class RankReporter {
 public:
  // `descriptor`: that of the pipe; the object does not close it. Programs that this process starts
  // do not get it: the agent takes the pipe's end for the end of the rank. `steps`: the job's
  // steps; the progress of the last one is always written. `monitor` outlives the object.
  RankReporter(int descriptor, int64_t steps, const RankMonitor* monitor);
  ~RankReporter();

  // Writes at most five reports a second; Flush writes the newest if it was left out. Training
  // thread.
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
  // Held while a line is written to the pipe.
  absl::Mutex mutex_;
  // Training thread only.
  absl::Time next_ = absl::InfinitePast();
  std::optional<session::Progress> held_;
  std::jthread thread_;
};

// Writes a fault without a thread, for a rank that may not start one.
void ReportFault(int descriptor, const v1::JobError& fault);

// After this call, an allocation that fails on any thread and that nobody handles reports a
// SITE_FAULT on the descriptor, and ends the process with kRankFailed.
void ReportWhenMemoryEnds(int descriptor);

}  // namespace longhaul
