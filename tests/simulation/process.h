// A simulated process. What is to happen in it happens while it lives and goes on: while it stands
// still, as after SIGSTOP, all of that waits, in its order; once it has ended, nothing happens in
// it any more.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "common/sim/event_loop.h"

namespace longhaul::simulation {

// Shared with what waits for it.
class Process : public std::enable_shared_from_this<Process> {
 public:
  explicit Process(sim::EventLoop* loop) : loop_(loop) {}

  // At once, if it goes on.
  void Run(std::function<void()> run);
  void After(absl::Duration delay, std::function<void()> run);
  // Of two such times the later end counts.
  void StandStill(absl::Duration time);
  void End();
  bool ended() const { return ended_; }

 private:
  void GoOn();

  sim::EventLoop* const loop_;
  bool ended_ = false, still_ = false;
  absl::Time until_;  // It stands still.
  std::deque<std::function<void()>> waiting_;
};

}  // namespace longhaul::simulation
