#include "tests/simulation/process.h"

#include <algorithm>
#include <utility>

namespace longhaul::simulation {

void Process::Run(std::function<void()> run) {
  if (ended_) return;
  if (still_) return waiting_.push_back(std::move(run));
  run();
}

void Process::After(absl::Duration delay, std::function<void()> run) {
  loop_->After(delay, [self = shared_from_this(), run = std::move(run)]() mutable {
    self->Run(std::move(run));
  });
}

void Process::StandStill(absl::Duration time) {
  if (ended_) return;
  until_ = std::max(until_, loop_->now() + time);
  still_ = true;
  loop_->At(until_, [self = shared_from_this()] { self->GoOn(); });
}

void Process::GoOn() {
  if (loop_->now() < until_) return;
  still_ = false;
  while (!ended_ && !still_ && !waiting_.empty()) {
    const std::function<void()> run = std::move(waiting_.front());
    waiting_.pop_front();
    run();
  }
}

// What waits holds the process, or its owner.
void Process::End() {
  ended_ = true;
  waiting_.clear();
}

}  // namespace longhaul::simulation
