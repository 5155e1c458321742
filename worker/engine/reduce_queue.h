// Reduces units on a thread of its own, in the order in which they were submitted, while the caller
// goes on with backward.
//
// Used from one thread. Submit blocks while `pending_max` units are not reduced yet; Wait blocks
// until the last reduction ends, as does the destructor.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace longhaul {

class ReduceQueue {
 public:
  // `reduce` is called on the queue's thread.
  ReduceQueue(std::function<absl::Status(int unit)> reduce, size_t pending_max);
  ~ReduceQueue();
  ReduceQueue(const ReduceQueue&) = delete;
  ReduceQueue& operator=(const ReduceQueue&) = delete;

  // After a reduction failed nothing more is reduced, and its error is returned from here on.
  absl::Status Submit(int unit);
  absl::Status Wait();

 private:
  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !units_.empty();
  }
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return units_.size() < pending_max_;
  }
  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return units_.empty(); }

  const std::function<absl::Status(int unit)> reduce_;
  const size_t pending_max_;
  absl::Mutex mutex_;
  std::deque<int> units_ ABSL_GUARDED_BY(mutex_);  // The first one is being reduced.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);    // The first error.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace longhaul
