// Bounds the bulk streams that a server receives or sends at one time, and so their memory: a push
// holds two chunks, whatever it brings.
#pragma once

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
    absl::Duration retry_delay = absl::Milliseconds(500);  // What a refused client is told.
  };
  // A stream's place, given back at the end of its life. Movable.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept;
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket();

   private:
    friend class StreamAdmission;
    explicit Ticket(StreamAdmission* admission) : admission_(admission) {}
    StreamAdmission* admission_ = nullptr;
  };

  explicit StreamAdmission(Options options) : options_(options) {}

  // RESOURCE_EXHAUSTED with RetryInfo: too many are in flight.
  absl::StatusOr<Ticket> Admit();
  int streams() const;

 private:
  void Release();

  const Options options_;
  mutable absl::Mutex mutex_;
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longhaul
