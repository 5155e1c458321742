// A small thread pool with a bounded queue, for work that must not run on gRPC's threads (disk, big
// buffers).
#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace longhaul {

// Thread-safe. Tasks begin in the order of their submission.
class Executor {
 public:
  using Task = absl::AnyInvocable<void()>;
  struct Options {
    int threads = 2;
    int queue_max = 256;  // Tasks that wait; those that run do not count.
  };
  explicit Executor(Options options);
  // Runs every accepted task to its end. No Submit may come from other objects' threads any more.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // False, and the task is destroyed unrun, when the queue is full. Never blocks.
  [[nodiscard]] bool Submit(Task task);

 private:
  void Work();

  const int queue_max_;
  absl::Mutex mutex_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace longhaul
