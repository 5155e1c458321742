// An emulated device: its memory is a second arena in host memory, and its copies and works run on
// this machine's cores. Queues run as late, and as much out of order, as the tokens allow; a seed
// decides the order. So a missing wait shows as a wrong version or wrong bytes. With threads, a
// copy takes as long as on a link of a given rate. Thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>

#include "common/base/patience.h"
#include "common/base/random.h"
#include "worker/movement/movement.h"

namespace longhaul {

class EmulatedMovement : public Movement {
 public:
  enum class Mode {
    // Works run inside Wait and Join: those that are needed, and others by chance.
    kLate,
    // One thread copies, one computes.
    kThreads,
  };
  struct Options {
    Mode mode = Mode::kLate;
    uint64_t seed = 1;
    // kThreads: the rate of each direction's link. 0: as fast as memory.
    double up_bytes_per_second = 0, down_bytes_per_second = 0;
    // How much Allocate gives of each side. 0: no bound.
    int64_t host_bytes_max = 0, device_bytes_max = 0;
    Patience timeout = absl::Minutes(5);
  };
  explicit EmulatedMovement(const Options& options);
  // Waits for the works that run. Drops the others.
  ~EmulatedMovement() override;

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(MemorySide side, int64_t bytes,
                                                      absl::string_view what) override;
  // The caller changes memory by itself and at once: its queue is always done.
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
    // Since when the first work that has not begun could run.
    std::optional<Time> ready;
  };
  // The link of one direction. Its work is done at `end`; the bytes are copied before.
  struct Link {
    double bytes_per_second = 0;
    // The queue whose first work the link does now. -1: none.
    int queue = -1;
    // The bytes were copied, with `status`.
    bool moved = false;
    absl::Status status;
    Time end;
  };

  absl::Status Enqueue(const MoveToken& token, Work work) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsDone(const MoveToken& token) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queues_[token.queue].done >= token.number;
  }
  bool IsReady(int queue) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A queue that is ready, of first, first + step, ... below `end`. -1: none is.
  int PickReady(int first, int end, int step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RunWork(const Work& work);
  void EndFirst(int queue, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunUntil(const MoveToken& token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CopyInBackground() ABSL_LOCKS_EXCLUDED(mutex_);
  void ComputeInBackground() ABSL_LOCKS_EXCLUDED(mutex_);
  // Begins a copy on each free link. Returns when the next copy ends.
  std::optional<Time> StartCopies() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::array<Queue, kQueues> queues_ ABSL_GUARDED_BY(mutex_);
  // Indexed by Direction.
  std::array<Link, 2> links_ ABSL_GUARDED_BY(mutex_);
  Random random_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Bytes, indexed by MemorySide.
  std::array<int64_t, 2> allocated_ ABSL_GUARDED_BY(mutex_) = {};
  std::thread copier_, computer_;
};

}  // namespace longhaul
