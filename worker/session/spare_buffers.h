// Host memory that rounds hand on to each other. A round needs one copy of a fragment after the
// other (the snapshot, what a pull makes, the parameters that a merge replaces): fresh memory for
// each would cost more than the work on it, a page fault for every 4 KiB, in part on the training
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace longhaul::session {

// Shared by the fragments of a rank. Holds at most kSpareMax buffers, of what rounds had in use at
// one time before. Thread-safe.
class SpareBuffers {
 public:
  static constexpr size_t kSpareMax = 2;

  // Of so many elements, whose values are anything.
  std::vector<float> Take(int64_t elements);
  // For later; freed when there are enough.
  void Give(std::vector<float> buffer);

 private:
  absl::Mutex mutex_;
  std::vector<std::vector<float>> spare_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::session
