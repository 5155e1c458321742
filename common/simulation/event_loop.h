// Virtual time. Events run in the order of their time, and those of the same time in the order in
// which they were scheduled. One thread and no wall clock: a run is a function of its inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "absl/time/time.h"

namespace longhaul::sim {

// Not thread-safe.
class EventLoop {
 public:
  absl::Time now() const { return now_; }

  // A time in the past means now.
  void At(absl::Time moment, std::function<void()> run);
  void After(absl::Duration delay, std::function<void()> run) { At(now_ + delay, std::move(run)); }

  // Runs the next event. Returns false if none is left, or if the next one is after `until`; then
  // the time is `until`.
  bool RunOne(absl::Time until = absl::InfiniteFuture());
  int64_t events_run() const { return events_run_; }

 private:
  struct Scheduled {
    absl::Time moment;
    int64_t order;
    std::function<void()> run;
  };
  struct Later {
    bool operator()(const Scheduled& a, const Scheduled& b) const {
      return a.moment != b.moment ? a.moment > b.moment : a.order > b.order;
    }
  };

  absl::Time now_ = absl::UnixEpoch();
  int64_t next_order_ = 0, events_run_ = 0;
  std::priority_queue<Scheduled, std::vector<Scheduled>, Later> queue_;
};

}  // namespace longhaul::sim
