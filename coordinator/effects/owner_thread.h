// The thread that owns the coordinator's decisions and their small effects. Tasks run one after
// another, in the order in which they were posted. Only this thread touches what is documented as
// "owner thread", so that needs no lock.
//
// A task's time is the time of its arrival. So heartbeats that wait behind a slow disk do not make
// their pools late.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/task_runner.h"

namespace longhaul::coordinator {

// As the system shows it.
inline constexpr char kOwnerThreadName[] = "owner";

// Thread-safe.
class OwnerThread : public TaskRunner {
 public:
  struct Options {
    // How many tasks of Post may wait.
    int queue_max = 1 << 16;
    // How many tasks of PostRead may wait.
    int reads_max = 1 << 10;
    // In the machine's time, whatever `clock` says.
    absl::Duration tick_period = absl::Milliseconds(200);
  };
  // `clock` outlives the object. `tick` runs as a task, once in each tick_period.
  OwnerThread(Options options, const Clock* clock, std::function<void()> tick);
  // Calls Stop.
  ~OwnerThread() override;
  OwnerThread(const OwnerThread&) = delete;
  OwnerThread& operator=(const OwnerThread&) = delete;

  // Called in place of a task that RefuseWaiting took away, with its status.
  using Refusal = absl::AnyInvocable<void(const absl::Status&)>;
  // For work from outside. Returns false, and destroys the task without running it, if the queue is
  // full or the thread has stopped. With `refusal`, RefuseWaiting may take the task away.
  [[nodiscard]] bool Post(Task task, Refusal refusal = nullptr);
  // As Post, for what only looks: it runs when no other task waits, or after kBeforeRead others. So
  // whoever reads much holds up others who read, and no pool.
  [[nodiscard]] bool PostRead(Task task, Refusal refusal = nullptr);
  static constexpr int kBeforeRead = 32;
  // For facts that must not be lost. Their number is bounded by what caused them, so the queue has
  // no limit for them. Returns false if the thread has stopped.
  bool Submit(Task task) override;

  // Called within a task: the time of its arrival. Never goes backwards.
  absl::Time now() const { return now_; }

  // --- For who watches the thread. A task that waits for a disk may not return.

  // How long the task that runs now has run. Zero if none runs. Any thread.
  absl::Duration stalled_for() const;
  // Takes away the tasks that have a refusal and have not begun, and calls their refusals. Any
  // thread.
  void RefuseWaiting(const absl::Status& status);

  // Runs the tasks that were posted, and then no more. Blocks; must not be called from a task.
  // Later calls return at once.
  void Stop();

 private:
  struct Entry {
    absl::Time arrived;
    Task task;
    // May be empty.
    Refusal refusal;
  };
  struct Queue {
    std::deque<Entry> entries;
    bool empty() const { return entries.empty(); }
    Entry Take();
  };
  bool Push(Queue& queue, Task task, Refusal refusal, size_t queue_max) ABSL_LOCKS_EXCLUDED(mutex_);
  // The one that the next task comes from; both are empty, or it is not.
  Queue& Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  const Options options_;
  const Clock* const clock_;
  const std::function<void()> tick_;
  mutable absl::Mutex mutex_;
  Queue tasks_ ABSL_GUARDED_BY(mutex_), reads_ ABSL_GUARDED_BY(mutex_);
  // Tasks since the last read.
  int before_read_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // When the task that runs began, as SteadyTime. InfinitePast: none runs.
  absl::Time running_since_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // Owner thread.
  absl::Time now_;
  std::thread thread_;
};

}  // namespace longhaul::coordinator
