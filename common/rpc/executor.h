// A small thread pool with a bounded queue, for work that must not run on gRPC's threads (disk, big
// buffers).
#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/task_runner.h"

namespace longhaul {

// Thread-safe. Tasks begin in the order of their submission.
class Executor : public TaskRunner {
 public:
  struct Options {
    // At most so many; each is started when a task finds the others busy, and stays.
    int threads = 2;
    int queue_max = 256;  // Tasks that wait; those that run do not count.
  };
  explicit Executor(Options options) : options_(options) {}
  // Runs every accepted task to its end. No Submit may come from other objects' threads any more.
  ~Executor() override;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // False, and the task is destroyed unrun, when the queue is full. Never blocks.
  [[nodiscard]] bool Submit(Task task) override;
  // Whether tasks wait for a thread. For a long task that lets others in between its parts.
  bool crowded() const;

 private:
  void Work();

  const Options options_;
  mutable absl::Mutex mutex_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  int idle_ ABSL_GUARDED_BY(mutex_) = 0;  // Threads that wait for a task.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
