// The newest log lines of a node, from its agent and its ranks. Readers may ask for them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace longhaul {

// Thread-safe. Bounded: the oldest lines are dropped first. Lines are numbered from 0; the numbers
// of another ring, as that of an earlier run, mean other lines.
class LogRing {
 public:
  static constexpr size_t kLineMax = 4 << 10;

  explicit LogRing(size_t bytes_max = 1 << 20);

  // A random number that tells this ring from others. Not 0.
  uint64_t id() const { return id_; }

  // Lines from now on belong to this job. Empty: to no job.
  void SetJob(const std::string& job_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds a line without its end. A line longer than kLineMax is cut.
  void Add(absl::string_view line) ABSL_LOCKS_EXCLUDED(mutex_);

  // The number at which a reader begins that wants the last `lines` lines of that job (empty: of
  // any).
  int64_t Before(int64_t lines, const std::string& job_id) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The number at which a reader goes on that stopped before line `next` of ring `id`: there, or at
  // the first line if it was another ring.
  int64_t GoOnAt(uint64_t id, int64_t next) const ABSL_LOCKS_EXCLUDED(mutex_);

  struct Chunk {
    // Each line with its end.
    std::string text;
    // How many lines since `from` were dropped, of any job.
    int64_t dropped = 0;
    // The number with which to continue.
    int64_t next = 0;
  };
  // The lines of that job from number `from` on: at most so many bytes, but at least one line.
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
  const uint64_t id_;
  mutable absl::Mutex mutex_;
  std::deque<Line> lines_ ABSL_GUARDED_BY(mutex_);
  // The number of lines_.front().
  int64_t first_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string job_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
