#include "common/track/tracker.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace longhaul {
namespace {

constexpr absl::Duration kTryAgain = absl::Seconds(30);

}  // namespace

void Tracker::Submit(TaskRunner::Task task) {
  const bool accepted = runner_->Submit(std::move(task));
  absl::MutexLock lock(&mutex_);
  if (accepted || std::exchange(overflowed_, true)) return;
  log_.Warning("the disk is too slow for the recorded curves: some points are missing");
}

template <typename F>
void Tracker::With(const std::string& folder, absl::Time now, F&& write) {
  if (runs_.size() >= kRunsMax && !runs_.contains(folder)) return;
  Run& run = runs_[folder];
  if (run.run == nullptr) {
    if (now < run.again) return;
    absl::StatusOr<std::unique_ptr<TrackedRun>> opened = TrackedRun::Open(fs_, folder, now);
    if (!opened.ok()) return Report(folder, run, opened.status(), now);
    run.run = *std::move(opened);
  }
  Report(folder, run, write(*run.run), now);
}

void Tracker::Report(const std::string& folder, Run& run, const absl::Status& status,
                     absl::Time now) {
  if (status.ok()) {
    run.failed = false;
    return;
  }
  run.again = now + kTryAgain;
  if (std::exchange(run.failed, true)) return;
  log_.Warning(absl::StrCat("the curves in ", folder, " are not written: ", status.ToString(),
                            "; training continues, and writing them is tried again"));
}

void Tracker::Add(const std::string& folder, TrackedStep step) {
  Submit([this, folder, step = std::move(step)] {
    With(folder, step.time, [&](TrackedRun& run) { return run.Add(step); });
  });
}

void Tracker::AddText(const std::string& folder, absl::Time time, std::string tag,
                      std::string text) {
  Submit([this, folder, time, tag = std::move(tag), text = std::move(text)] {
    With(folder, time, [&](TrackedRun& run) { return run.AddText(time, tag, text); });
  });
}

void Tracker::AddSometimes(const std::string& folder, std::string session, absl::Duration at_least,
                           TrackedStep step) {
  Submit([this, folder, session = std::move(session), at_least, step = std::move(step)]() mutable {
    const absl::Time now = step.time;
    With(folder, now,
         [&](TrackedRun& run) { return run.AddSometimes(session, at_least, std::move(step)); });
  });
}

void Tracker::Close(const std::string& prefix) {
  Submit([this, prefix] {
    for (auto run = runs_.lower_bound(prefix);
         run != runs_.end() && absl::StartsWith(run->first, prefix); run = runs_.erase(run)) {
      if (run->second.run != nullptr)
        Report(run->first, run->second, run->second.run->Flush(), absl::Now());
    }
  });
}

}  // namespace longhaul
