#include "coordinator/effects/owner_thread.h"

#include <pthread.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace longhaul::coordinator {
OwnerThread::OwnerThread(Options options, const Clock* clock, std::function<void()> tick)
    : options_(options), clock_(clock), tick_(std::move(tick)), now_(clock->Now()) {
  thread_ = std::thread([this] { Run(); });
}

OwnerThread::~OwnerThread() { Stop(); }

bool OwnerThread::Post(Task task, Refusal refusal) {
  return Push(tasks_, std::move(task), std::move(refusal), options_.queue_max);
}

bool OwnerThread::PostRead(Task task, Refusal refusal) {
  return Push(reads_, std::move(task), std::move(refusal), options_.reads_max);
}

bool OwnerThread::Submit(Task task) {
  return Push(tasks_, std::move(task), nullptr, std::numeric_limits<size_t>::max());
}

bool OwnerThread::Push(Queue& queue, Task task, Refusal refusal, size_t queue_max) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || queue.entries.size() >= queue_max) return false;
  queue.entries.push_back({clock_->Now(), std::move(task), std::move(refusal)});
  return true;
}

OwnerThread::Entry OwnerThread::Queue::Take() {
  Entry entry = std::move(entries.front());
  entries.pop_front();
  return entry;
}

OwnerThread::Queue& OwnerThread::Next() {
  const bool read = !reads_.empty() && (tasks_.empty() || before_read_ >= kBeforeRead);
  before_read_ = read ? 0 : before_read_ + 1;
  return read ? reads_ : tasks_;
}

absl::Duration OwnerThread::stalled_for() const {
  absl::MutexLock lock(&mutex_);
  if (running_since_ == absl::InfinitePast()) return absl::ZeroDuration();
  return SteadyTime() - running_since_;
}

void OwnerThread::RefuseWaiting(const absl::Status& status) {
  std::vector<Entry> refused;
  {
    absl::MutexLock lock(&mutex_);
    for (Queue* queue : {&tasks_, &reads_}) {
      std::deque<Entry> kept;
      for (Entry& entry : queue->entries) {
        if (entry.refusal) {
          refused.push_back(std::move(entry));
        } else {
          kept.push_back(std::move(entry));
        }
      }
      queue->entries = std::move(kept);
    }
  }
  for (Entry& entry : refused) std::move(entry.refusal)(status);
}

void OwnerThread::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void OwnerThread::Run() {
  pthread_setname_np(pthread_self(), kOwnerThreadName);
  const auto something_to_do = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !tasks_.empty() || !reads_.empty() || stopping_;
  };
  // Ticks follow the machine's steady clock, so that they continue if a test stops `clock`.
  absl::Time next_tick = SteadyTime() + options_.tick_period;
  while (true) {
    Entry entry;
    {
      absl::MutexLock lock(&mutex_);
      running_since_ = absl::InfinitePast();
      const absl::Duration left = std::max(next_tick - SteadyTime(), absl::ZeroDuration());
      mutex_.AwaitWithTimeout(absl::Condition(&something_to_do), left);
      const bool none = tasks_.empty() && reads_.empty();
      if (none && stopping_) return;
      if (SteadyTime() < next_tick) {
        if (none) continue;
        entry = Next().Take();
        // A read that came later does not make those that wait late.
        if (!tasks_.empty())
          entry.arrived = std::min(entry.arrived, tasks_.entries.front().arrived);
      } else {
        // If tasks wait, a tick has the time of the first of them, so that time does not go
        // backwards.
        entry.arrived = tasks_.empty() ? clock_->Now() : tasks_.entries.front().arrived;
      }
      running_since_ = SteadyTime();
    }
    now_ = std::max(now_, entry.arrived);
    if (entry.task) {
      std::move(entry.task)();
    } else {
      tick_();
      next_tick = SteadyTime() + options_.tick_period;
    }
  }
}

}  // namespace longhaul::coordinator
