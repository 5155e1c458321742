// Host memory that rounds reuse. A round needs several copies of a fragment, one after the other:
// the snapshot, the result of a pull, the parameters that a merge replaces. With fresh memory for
// each, page faults (one for every 4 KiB, in part on the training thread) would cost more than the
// work itself.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace longhaul::session {

// Shared by the fragments of a rank. Keeps at most kSpareMax buffers that nobody uses. Thread-safe.
// Never blocks for long.
class SpareBuffers {
 public:
  static constexpr size_t kSpareMax = 2;

  // A buffer of so many elements. Their values are unspecified.
  std::vector<float> Take(int64_t elements);
  // Keeps the buffer for a later Take. If there are too many, frees the smallest.
  void Give(std::vector<float> buffer);

 private:
  absl::Mutex mutex_;
  std::vector<std::vector<float>> spare_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::session
