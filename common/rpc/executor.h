// A small thread pool with a bounded queue, for work that must not run on gRPC's threads (disk, big
// buffers). Tasks may have an owner (a pool). Owners take turns, and none may fill the queue.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/base/task_runner.h"

namespace longhaul {

// Thread-safe. Tasks of one owner begin in the order in which they were submitted.
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
  // Its owner is nobody.
  [[nodiscard]] bool Submit(Task task) override { return Submit("", std::move(task)); }
  // Also returns false if more tasks of this owner wait than there is room beside them (the rule of
  // StreamAdmission).
  [[nodiscard]] bool Submit(absl::string_view owner, Task task);
  // Whether tasks wait for a thread. A long task asks this between its parts, to let others run.
  bool crowded() const;

 private:
  void Work();

  const Options options_;
  mutable absl::Mutex mutex_;
  // Tasks that wait, by owner, and the owners that have some, in the order of their turns.
  std::map<std::string, std::deque<Task>, std::less<>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mutex_);
  int waiting_count_ ABSL_GUARDED_BY(mutex_) = 0;
  // Threads that wait for a task.
  int idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
