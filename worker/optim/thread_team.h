// Runs a piece of work on several threads of the rank. The calling thread is one of them; the others
// sleep in between. Used from one thread. Run blocks until all parts are done.
#pragma once

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
  // Cuts `elements` into parts for the threads, at multiples of `grain` elements, and runs
  // body(first, end) of each; what is too small to be shared runs on the calling thread. Where the
  // cuts are must not matter to the result.
  void ForParts(int64_t elements, int64_t grain,
                absl::FunctionRef<void(int64_t first, int64_t end)> body);

 private:
  void Work(int thread);
  bool Begun(int64_t seen) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || runs_ > seen;
  }

  absl::Mutex mutex_;
  // Of the run under way, by thread; null: the thread has no part.
  absl::FunctionRef<void(int)>* part_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int64_t runs_ ABSL_GUARDED_BY(mutex_) = 0;
  int working_ ABSL_GUARDED_BY(mutex_) = 0;  // Others that have not ended their part.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> others_;
};

// Of arrays that threads share: so that they part at lines of cache, also where an element has two
// bytes.
inline constexpr int64_t kLineGrain = 128;

// On the team; without one (null), on the calling thread alone.
inline void ForParts(ThreadTeam* team, int64_t elements, int64_t grain,
                     absl::FunctionRef<void(int64_t first, int64_t end)> body) {
  if (team == nullptr) return body(0, elements);
  team->ForParts(elements, grain, body);
}

}  // namespace longhaul
