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

// Thread-safe. Tasks begin in the order in which they were submitted.
class Executor : public TaskRunner {
 public:
  struct Options {
    // At most so many. A thread is started when a task finds the others busy, and then it stays.
    int threads = 2;
    // How many tasks may wait, without those that run.
    int queue_max = 256;
  };
  explicit Executor(Options options) : options_(options) {}
  // Runs every accepted task to its end. No other thread may call Submit any more.
  ~Executor() override;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Returns false, and destroys the task without running it, if the queue is full. Never blocks.
  [[nodiscard]] bool Submit(Task task) override;
  // Whether tasks wait for a thread. A long task asks this between its parts, to let others run.
  bool crowded() const;

 private:
  void Work();

  const Options options_;
  mutable absl::Mutex mutex_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  // Threads that wait for a task.
  int idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
