#include "common/rpc/executor.h"

#include <pthread.h>

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

bool Executor::Submit(absl::string_view owner, Task task) {
  absl::MutexLock lock(&mutex_);
  const int room = options_.queue_max - waiting_count_;
  if (room <= 0) return false;
  auto found = waiting_.find(owner);
  if (found == waiting_.end()) {
    found = waiting_.try_emplace(std::string(owner)).first;
    turns_.emplace_back(owner);
  } else if (!owner.empty() && static_cast<int>(found->second.size()) >= room) {
    return false;
  }
  found->second.push_back(std::move(task));
  ++waiting_count_;
  if (waiting_count_ > idle_ && !stopping_ &&
      static_cast<int>(threads_.size()) < options_.threads) {
    threads_.emplace_back([this] { Work(); });
  }
  return true;
}

bool Executor::crowded() const {
  absl::MutexLock lock(&mutex_);
  return waiting_count_ > 0;
}

void Executor::Work() {
  // Else it has the name of the thread that submitted the task it was started for.
  pthread_setname_np(pthread_self(), "executor");
  const auto something_to_do = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_count_ > 0 || stopping_;
  };
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      ++idle_;
      mutex_.Await(absl::Condition(&something_to_do));
      --idle_;
      if (waiting_count_ == 0) return;
      const auto found = waiting_.find(turns_.front());
      task = std::move(found->second.front());
      found->second.pop_front();
      --waiting_count_;
      if (found->second.empty()) {
        waiting_.erase(found);
      } else {
        turns_.push_back(std::move(turns_.front()));
      }
      turns_.pop_front();
    }
    std::move(task)();
  }
}

}  // namespace longhaul
