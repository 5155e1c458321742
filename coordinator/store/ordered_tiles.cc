#include "coordinator/store/ordered_tiles.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace longhaul {
namespace {

constexpr int kThreadsMax = 8;

class TileQueue {
 public:
  TileQueue(int64_t tiles, TileWork work, TileWork finish)
      : tiles_(tiles), work_(work), finish_(finish) {}

  void Run(int worker) {
    for (int64_t tile; Claim(&tile);) {
      absl::Status status = work_(tile, worker);
      if (!AwaitTurn(tile)) return;
      if (status.ok()) status = finish_(tile, worker);
      EndTurn(status);
    }
  }

  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  bool Claim(int64_t* tile) {
    absl::MutexLock lock(&mutex_);
    *tile = next_;
    return status_.ok() && next_++ < tiles_;
  }
  // Returns false if an earlier tile failed. The wait ends, since each earlier tile was claimed by
  // a thread that is working on it.
  bool AwaitTurn(int64_t tile) {
    absl::MutexLock lock(&mutex_);
    const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return turn_ == tile || !status_.ok();
    };
    mutex_.Await(absl::Condition(&ready));
    return status_.ok();
  }
  void EndTurn(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    status_ = status;
    ++turn_;
  }

  const int64_t tiles_;
  const TileWork work_, finish_;
  mutable absl::Mutex mutex_;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0, turn_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status ForTilesInOrder(int64_t tiles, int threads, TileWork work, TileWork finish) {
  TileQueue queue(tiles, work, finish);
  std::vector<std::jthread> helpers;
  for (int worker = 1; worker < std::min<int64_t>(threads, tiles); ++worker) {
    helpers.emplace_back([&queue, worker] { queue.Run(worker); });
  }
  queue.Run(0);
  // Joins the threads.
  helpers.clear();
  return queue.status();
}

int TileThreads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kThreadsMax);
}

}  // namespace longhaul
