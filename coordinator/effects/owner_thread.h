// The thread that owns the coordinator's decisions and their small effects: tasks run one after
// another, in the order in which they were posted. Everything that is documented as "owner thread"
// is touched by it alone and needs no lock.
//
// A task's time is that of its arrival, so that a slow disk does not make the pools late whose
// heartbeats wait behind it.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/task_runner.h"

namespace longhaul::coordinator {

// Thread-safe.
class OwnerThread : public TaskRunner {
 public:
  struct Options {
    int queue_max = 1 << 16;  // Tasks of Post that wait.
    absl::Duration tick_period =
        absl::Milliseconds(200);  // Of the machine's time, whatever the clock says.
  };
  // `clock` outlives the object. `tick` runs as a task, each tick_period.
  OwnerThread(Options options, const Clock* clock, std::function<void()> tick);
  // Stop.
  ~OwnerThread() override;
  OwnerThread(const OwnerThread&) = delete;
  OwnerThread& operator=(const OwnerThread&) = delete;

  // For work from outside. False, and the task is destroyed unrun, when the queue is full or the
  // thread has stopped.
  [[nodiscard]] bool Post(Task task);
  // For facts that must not be lost, whose number is bounded by what caused them. False: the thread
  // has stopped.
  bool Submit(Task task) override;

  // Within a task: the time of its arrival. Never goes backwards.
  absl::Time now() const { return now_; }

  // Runs what was posted to its end, then nothing more. Blocks; not from a task. Later calls return
  // at once.
  void Stop();

 private:
  struct Entry {
    absl::Time arrived;
    Task task;
  };
  bool Push(Task task, size_t queue_max);
  void Run();

  const Options options_;
  const Clock* const clock_;
  const std::function<void()> tick_;
  absl::Mutex mutex_;
  std::deque<Entry> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time now_;  // Owner thread.
  std::thread thread_;
};

}  // namespace longhaul::coordinator
