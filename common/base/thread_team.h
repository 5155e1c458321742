// Runs a piece of work on several threads of the rank. The calling thread is one of them; the
// others sleep between pieces. Thread-safe: while one caller has the team, another caller does its
// work alone on its own thread. Calls block until all parts are done.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace longhaul {

class ThreadTeam {
 public:
  explicit ThreadTeam(int threads = 1);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int threads() const { return static_cast<int>(others_.size()) + 1; }
  // Cuts `elements` into one part for each thread, at multiples of `grain` elements, and runs
  // body(first, end) for each. Work that is too small to be shared runs on the calling thread. The
  // result must not depend on the cuts.
  // A thread gets the same part of the same elements each time, so its data stays in its cache. But
  // a thread that starts late may find its part done by the caller, so a busy core does not delay
  // the caller.
  void ForParts(int64_t elements, int64_t grain,
                absl::FunctionRef<void(int64_t first, int64_t end)> body);

  // Runs both at once, `first` on the calling thread; one after the other, if the team has one
  // thread or another caller has it. Returns when both are done.
  void Both(absl::FunctionRef<void()> first, absl::FunctionRef<void()> second);

 private:
  // Runs part(0) on the calling thread, and the other parts on the others. `busy_` is the caller's.
  void Run(int64_t parts, absl::FunctionRef<void(int64_t part)> part_of_run)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Work(int thread);
  bool Begun(int64_t seen) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || runs_ > seen;
  }
  // Takes the part of the current run. Returns false if there is no run, or if another thread has
  // taken the part.
  bool Take(int64_t part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A caller has the team.
  std::atomic<bool> busy_ = false;
  absl::Mutex mutex_;
  // The body of the current run; null if there is none.
  absl::FunctionRef<void(int64_t part)>* part_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // By part.
  std::vector<bool> taken_ ABSL_GUARDED_BY(mutex_);
  int64_t runs_ ABSL_GUARDED_BY(mutex_) = 0;
  // How many other threads work on a part.
  int working_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> others_;
};

// The grain of arrays that threads share. It keeps two threads from writing to one cache line, even
// if an element has two bytes.
inline constexpr int64_t kLineGrain = 128;

// Runs on the team, or only on the calling thread if it is null.
inline void ForParts(ThreadTeam* team, int64_t elements, int64_t grain,
                     absl::FunctionRef<void(int64_t first, int64_t end)> body) {
  if (team == nullptr) return body(0, elements);
  team->ForParts(elements, grain, body);
}

}  // namespace longhaul
