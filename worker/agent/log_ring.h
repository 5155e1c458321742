// The newest log lines of a node, its agent's and its ranks', for whoever asks for them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace longhaul {

// Thread-safe. Bounded: the oldest lines go first. Lines are numbered from 0.
class LogRing {
 public:
  static constexpr size_t kLineMax = 4 << 10;

  explicit LogRing(size_t bytes_max = 1 << 20) : bytes_max_(bytes_max) {}

  // Lines from now on are of this job. Empty: of none.
  void SetJob(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Without its end; what is longer than kLineMax is cut.
  void Add(absl::string_view line) ABSL_LOCKS_EXCLUDED(mutex_);

  // Where a reader begins that wants so many lines of that job (empty: of any) before the next.
  int64_t Before(int64_t lines, const std::string& job_id) const ABSL_LOCKS_EXCLUDED(mutex_);

  struct Chunk {
    std::string text;     // Each line with its end.
    int64_t dropped = 0;  // Lines since `from` that are gone, of any job.
    int64_t next = 0;     // Read on from here.
  };
  // Lines of that job from number `from` on, at most so many bytes (one line in any case).
  Chunk Read(int64_t from, const std::string& job_id, size_t bytes_max) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Line {
    std::string text, job;
  };
  int64_t end() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return first_ + static_cast<int64_t>(lines_.size());
  }

  const size_t bytes_max_;
  mutable absl::Mutex mutex_;
  std::deque<Line> lines_ ABSL_GUARDED_BY(mutex_);
  int64_t first_ ABSL_GUARDED_BY(mutex_) = 0;  // Number of lines_.front().
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string job_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
