#include "common/rpc/executor.h"

#include <utility>

namespace longhaul {

Executor::Executor(Options options) : queue_max_(options.queue_max) {
  threads_.reserve(options.threads);
  for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Work(); });
}

Executor::~Executor() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

bool Executor::Submit(Task task) {
  absl::MutexLock lock(&mutex_);
  if (static_cast<int>(queue_.size()) >= queue_max_) return false;
  queue_.push_back(std::move(task));
  return true;
}

void Executor::Work() {
  const auto something_to_do = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !queue_.empty() || stopping_;
  };
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&something_to_do));
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    std::move(task)();
  }
}

}  // namespace longhaul
