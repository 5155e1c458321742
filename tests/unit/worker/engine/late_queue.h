// A queue that runs collectives as late as it may, or as soon, by seeded chance: a step that used a
// buffer without waiting for it would compute with other bytes.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include "common/base/random.h"
#include "worker/engine/stream_queue.h"
#include "worker/engine/torch_status.h"

namespace longhaul {

class LateQueue : public StreamQueue {
 public:
  // `unwaited`: waits for works whose name begins so are skipped.
  explicit LateQueue(uint64_t seed, std::string unwaited = "")
      : random_(seed), unwaited_(std::move(unwaited)) {}

  Ticket Submit(std::string name, std::function<absl::Status()> work) override {
    works_.push_back({std::move(name), std::move(work)});
    const auto submitted = static_cast<Ticket>(works_.size());
    // Some at once; mostly none.
    if (random_.Below(4) == 0) RunUntil(done_ + 1 + static_cast<Ticket>(random_.Below(3)));
    return submitted;
  }
  absl::Status Wait(Ticket ticket) override {
    if (ticket > 0 && !unwaited_.empty() && works_[ticket - 1].name.starts_with(unwaited_))
      return status_;
    RunUntil(ticket);
    return status_;
  }

 private:
  struct Work {
    std::string name;
    std::function<absl::Status()> run;
  };
  void RunUntil(Ticket ticket) {
    for (; done_ < std::min<Ticket>(ticket, static_cast<Ticket>(works_.size())); ++done_)
      if (status_.ok()) status_ = CatchTorch(works_[done_].name, works_[done_].run);
  }

  Random random_;
  const std::string unwaited_;
  std::deque<Work> works_;
  Ticket done_ = 0;
  absl::Status status_;
};

}  // namespace longhaul
