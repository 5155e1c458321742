// Bounds the memory of the bulk streams that a server receives or sends at one time.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace longhaul {

// Thread-safe; never blocks. Must outlive its tickets.
class StreamAdmission {
 public:
  struct Options {
    int streams_max = 64;
    int64_t bytes_max = int64_t{4} << 30;                  // Buffers of all streams together.
    absl::Duration retry_delay = absl::Milliseconds(500);  // What a refused client is told.
  };
  // A stream's share, given back at the end of its life. Movable.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept;
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket();

   private:
    friend class StreamAdmission;
    Ticket(StreamAdmission* admission, int64_t bytes) : admission_(admission), bytes_(bytes) {}
    StreamAdmission* admission_ = nullptr;
    int64_t bytes_ = 0;
  };

  explicit StreamAdmission(Options options) : options_(options) {}

  // RESOURCE_EXHAUSTED with RetryInfo: too much is in flight. A single stream larger than bytes_max
  // is admitted alone.
  absl::StatusOr<Ticket> Admit(int64_t bytes);
  int streams() const;

 private:
  void Release(int64_t bytes);

  const Options options_;
  mutable absl::Mutex mutex_;
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longhaul
