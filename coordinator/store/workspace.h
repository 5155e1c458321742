// The memory that a job's store has besides its state, for one copy of a fragment. A snapshot, a
// checkpoint and the reading of initial parameters each make such copies, one fragment at a time,
// and take turns. So a copy waits at most until the ones before it are written.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace longhaul {

// Thread-safe.
class Workspace {
 public:
  // Held while the copy exists. Turns come in the order in which they were asked for: absl::Mutex
  // would often give the next one to who just had one.
  class Turn {
   public:
    // Blocks.
    explicit Turn(Workspace& workspace) : workspace_(workspace) {
      absl::MutexLock lock(&workspace_.mutex_);
      const uint64_t mine = workspace_.asked_++;
      const auto free = [&] { return workspace_.ended_ == mine; };
      workspace_.mutex_.Await(absl::Condition(&free));
    }
    ~Turn() {
      absl::MutexLock lock(&workspace_.mutex_);
      ++workspace_.ended_;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Workspace& workspace_;
  };

  // How many turns were asked for, with those that have ended.
  uint64_t asked() const {
    absl::MutexLock lock(&mutex_);
    return asked_;
  }

 private:
  mutable absl::Mutex mutex_;
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longhaul
