#include "common/rpc/executor.h"

#include <utility>

namespace longhaul {

Executor::~Executor() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

bool Executor::Submit(Task task) {
  absl::MutexLock lock(&mutex_);
  if (static_cast<int>(queue_.size()) >= options_.queue_max) return false;
  queue_.push_back(std::move(task));
  if (static_cast<int>(queue_.size()) > idle_ && !stopping_ &&
      static_cast<int>(threads_.size()) < options_.threads) {
    threads_.emplace_back([this] { Work(); });
  }
  return true;
}

bool Executor::crowded() const {
  absl::MutexLock lock(&mutex_);
  return !queue_.empty();
}

void Executor::Work() {
  const auto something_to_do = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !queue_.empty() || stopping_;
  };
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      ++idle_;
      mutex_.Await(absl::Condition(&something_to_do));
      --idle_;
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    std::move(task)();
  }
}

}  // namespace longhaul
