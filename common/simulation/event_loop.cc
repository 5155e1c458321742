#include "common/simulation/event_loop.h"

#include <algorithm>
#include <utility>

namespace longhaul::sim {

void EventLoop::At(absl::Time moment, std::function<void()> run) {
  queue_.push({std::max(moment, now_), next_order_++, std::move(run)});
}

bool EventLoop::RunOne(absl::Time until) {
  if (queue_.empty() || queue_.top().moment > until) {
    if (until != absl::InfiniteFuture()) now_ = std::max(now_, until);
    return false;
  }
  // The event is moved out before it is popped, since running it may schedule more.
  Scheduled next = std::move(const_cast<Scheduled&>(queue_.top()));
  queue_.pop();
  now_ = next.moment;
  ++events_run_;
  next.run();
  return true;
}

}  // namespace longhaul::sim
