// Writes the curves of several runs in the background. Every call returns at once. Points that do
// not fit into the queue are dropped, and the log says so. If the disk of a run fails, that is
// logged once and tried again later. Training never waits for it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/task_runner.h"
#include "common/io/filesystem.h"
#include "common/logging/logging.h"
#include "common/track/tracked_run.h"

namespace longhaul {

// Thread-safe. A run is named by its folder.
class Tracker {
 public:
  // `runner` runs one task at a time, in order, and has run all of them before this object ends.
  // `fs` outlives it.
  Tracker(FileSystem* fs, TaskRunner* runner, Logger log)
      : fs_(fs), runner_(runner), log_(std::move(log)) {}

  // See TrackedRun.
  void Add(const std::string& folder, TrackedStep step);
  void AddText(const std::string& folder, absl::Time time, std::string tag, std::string text);
  void AddSometimes(const std::string& folder, std::string session, absl::Duration at_least,
                    TrackedStep step);
  // Ends the runs whose folders begin with `prefix`: writes the points that were kept. They get no
  // more points.
  void Close(const std::string& prefix);

 private:
  static constexpr size_t kRunsMax = 4096;
  struct Run {
    // Null if it could not be opened.
    std::unique_ptr<TrackedRun> run;
    absl::Time again = absl::InfinitePast();
    // True: the log says so already.
    bool failed = false;
  };

  void Submit(TaskRunner::Task task);
  // Runs on the runner.
  template <typename F>
  void With(const std::string& folder, absl::Time now, F&& write);
  void Report(const std::string& folder, Run& run, const absl::Status& status, absl::Time now);

  FileSystem* const fs_;
  TaskRunner* const runner_;
  const Logger log_;
  // Used only on the runner.
  std::map<std::string, Run> runs_;
  absl::Mutex mutex_;
  bool overflowed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace longhaul
