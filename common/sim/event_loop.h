// Virtual time: what is scheduled runs in the order of its moment, then of its scheduling. One
// thread, no wall clock, so a run is a function of its inputs.
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

  // A moment that has passed means now.
  void At(absl::Time moment, std::function<void()> run);
  void After(absl::Duration delay, std::function<void()> run) { At(now_ + delay, std::move(run)); }

  // Runs the next event. False: none is left, or the next one is after `until`; then it is `until`.
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
