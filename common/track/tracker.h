// Writes the curves of several runs, beside what is going on: every call returns at once, and what does not fit the
// queue is left out and said in the log. A run whose disk fails is said once and tried again later; training never
// waits for it.
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

// Thread-safe. Folders are those of runs.
class Tracker {
 public:
  // `runner` runs one task at a time, in their order, and all of them before this object goes. `fs` outlives it.
  Tracker(FileSystem* fs, TaskRunner* runner, Logger log)
      : fs_(fs), runner_(runner), log_(std::move(log)) {}

  // See TrackedRun.
  void Add(const std::string& folder, TrackedStep step);
  void AddText(const std::string& folder, absl::Time time, std::string tag, std::string text);
  void AddSometimes(const std::string& folder, std::string session, absl::Duration at_least,
                    TrackedStep step);
  // Nothing more is to come of the runs whose folders begin so: what was kept is written.
  void Close(const std::string& prefix);

 private:
  static constexpr size_t kRunsMax = 4096;
  struct Run {
    std::unique_ptr<TrackedRun> run;  // Null: it could not be opened.
    absl::Time again = absl::InfinitePast();
    bool failed = false;  // And it was said.
  };

  void Submit(TaskRunner::Task task);
  // On the runner.
  template <typename F>
  void With(const std::string& folder, absl::Time now, F&& write);
  void Report(const std::string& folder, Run& run, const absl::Status& status, absl::Time now);

  FileSystem* const fs_;
  TaskRunner* const runner_;
  const Logger log_;
  std::map<std::string, Run> runs_;  // On the runner alone.
  absl::Mutex mutex_;
  bool overflowed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace longhaul
