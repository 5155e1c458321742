// A simulated process. It runs functions. While it stands still (as after SIGSTOP), functions wait,
// and keep their order. After its end no function runs.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "common/simulation/event_loop.h"

namespace longhaul::simulation {

// Shared with the functions that wait.
class Process : public std::enable_shared_from_this<Process> {
 public:
  explicit Process(sim::EventLoop* loop) : loop_(loop) {}

  // Runs the function at once, or later if the process stands still.
  void Run(std::function<void()> run);
  void After(absl::Duration delay, std::function<void()> run);
  // If it is stopped twice, the later end counts.
  void StandStill(absl::Duration time);
  void End();
  bool ended() const { return ended_; }

 private:
  void GoOn();

  sim::EventLoop* const loop_;
  bool ended_ = false, still_ = false;
  absl::Time until_;  // It stands still until then.
  std::deque<std::function<void()>> waiting_;
};

}  // namespace longhaul::simulation
