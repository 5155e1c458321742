#include "worker/engine/reduce_queue.h"

#include <utility>

namespace longhaul {

ReduceQueue::ReduceQueue(std::function<absl::Status(int unit)> reduce, size_t pending_max)
    : reduce_(std::move(reduce)), pending_max_(pending_max), thread_([this] { Run(); }) {}

ReduceQueue::~ReduceQueue() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (!units_.empty()) units_.resize(1);
  }
  thread_.join();
}

absl::Status ReduceQueue::Submit(int unit) {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &ReduceQueue::HasRoom));
  if (status_.ok()) units_.push_back(unit);
  return status_;
}

absl::Status ReduceQueue::Wait() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &ReduceQueue::IsIdle));
  return status_;
}

void ReduceQueue::Run() {
  while (true) {
    int unit;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &ReduceQueue::HasWork));
      if (units_.empty()) return;
      unit = units_.front();
    }
    absl::Status result = reduce_(unit);
    absl::MutexLock lock(&mutex_);
    units_.pop_front();
    if (result.ok()) continue;
    status_ = std::move(result);
    units_.clear();
  }
}

}  // namespace longhaul
