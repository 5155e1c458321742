// An emulated device: its memory is a second arena in host memory, its copies and works run on this
// machine's cores. Queues run as late and as much out of order as the tokens allow, in an order
// that a seed decides, so that a missing wait shows as a wrong version or wrong bytes. With
// threads, copies take the time that a link of a given rate would need.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>

#include "absl/time/time.h"
#include "common/base/random.h"
#include "worker/movement/movement.h"

namespace longhaul {

class EmulatedMovement : public Movement {
 public:
  enum class Mode {
    kLate,  // Works run inside Wait and Join alone, none that is not needed sooner than by chance.
    kThreads,  // One thread copies, one computes.
  };
  struct Options {
    Mode mode = Mode::kLate;
    uint64_t seed = 1;
    // kThreads: of each direction's link. 0: as fast as memory is.
    double up_bytes_per_second = 0, down_bytes_per_second = 0;
    // Of each place; beyond it there is no more. 0: no bound.
    int64_t host_bytes_max = 0, device_bytes_max = 0;
    absl::Duration timeout = absl::Minutes(5);
  };
  explicit EmulatedMovement(const Options& options);
  // Lets the works that run end; others are dropped.
  ~EmulatedMovement() override;

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(Place place, int64_t bytes,
                                                      absl::string_view what) override;
  // What the caller does to memory is done at once.
  absl::StatusOr<MoveToken> Fork() override { return MoveToken{}; }
  absl::Status Join(const MoveToken& token) override;
  bool Done(const MoveToken& token) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Wait(const MoveToken& token, absl::string_view what) override
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Queue {
    std::deque<Work> waiting;
    int64_t done = 0;
    std::optional<Time> ready;  // Since when the first one that is not under way could run.
  };
  // Of one direction. The work under way is done at `end`; its bytes are moved before.
  struct Link {
    double bytes_per_second = 0;
    int queue = -1;  // Whose first work is under way. -1: none.
    bool moved = false;
    absl::Status status;  // Of the move.
    Time end;
  };

  absl::Status Enqueue(const MoveToken& token, Work work) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsDone(const MoveToken& token) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queues_[token.queue].done >= token.number;
  }
  bool IsReady(int queue) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // One that is ready, of [first, end) in steps; -1: none.
  int PickReady(int first, int end, int step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the first work of a queue does.
  absl::Status RunWork(const Work& work);
  void EndFirst(int queue, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunUntil(const MoveToken& token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CopyInBackground() ABSL_LOCKS_EXCLUDED(mutex_);
  void ComputeInBackground() ABSL_LOCKS_EXCLUDED(mutex_);
  // Starts what the links can take; the time at which the next one ends.
  std::optional<Time> StartCopies() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::array<Queue, kQueues> queues_ ABSL_GUARDED_BY(mutex_);
  std::array<Link, 2> links_ ABSL_GUARDED_BY(mutex_);  // Up, down.
  Random random_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<int64_t, 2> allocated_ ABSL_GUARDED_BY(mutex_) = {};  // By place.
  std::thread copier_, computer_;
};

}  // namespace longhaul
