// Bounds the memory of the bulk streams that a server receives or sends at one time, and shares it
// between their owners (pools). A stream costs the bytes that it may hold. The number of streams
// does not matter.
//
// The rule: an owner may hold as much as is free beside it (dynamic thresholds of shared-memory
// switches: Choudhury and Hahne, 1998). So a single owner takes half of the budget, and n busy ones
// 1 / (n + 1) each, once the streams of those that came first have ended. A stream of b bytes of a
// new owner needs 2 b that are free: beside n such shares it finds room if b is at most
// 1 / (2 n + 2) of the budget. With 512 MiB and the 2 MiB and 64 KiB of a push, n is up to 123.
// Where it finds none it comes back later.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace longhaul {

// Thread-safe; never blocks. Must outlive its tickets.
class StreamAdmission {
 public:
  struct Options {
    // What all streams together may hold.
    int64_t bytes_max = int64_t{512} << 20;
    // The retry delay for a client that was refused.
    absl::Duration retry_delay = absl::Milliseconds(500);
  };
  // A stream's share. It is given back when the ticket ends. Movable.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept { *this = std::move(other); }
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket();

   private:
    friend class StreamAdmission;
    Ticket(StreamAdmission* admission, absl::string_view owner, int64_t bytes)
        : admission_(admission), owner_(owner), bytes_(bytes) {}
    StreamAdmission* admission_ = nullptr;
    std::string owner_;
    int64_t bytes_ = 0;
  };

  explicit StreamAdmission(Options options) : options_(options) {}

  // RESOURCE_EXHAUSTED with RetryInfo: the owner would hold more than is left. `bytes` >= 0.
  absl::StatusOr<Ticket> Admit(absl::string_view owner, int64_t bytes);
  int streams() const;
  int64_t bytes() const;

 private:
  void Release(const std::string& owner, int64_t bytes);

  const Options options_;
  mutable absl::Mutex mutex_;
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // The shares of owners that have a stream.
  struct Share {
    int streams = 0;
    int64_t bytes = 0;
  };
  std::map<std::string, Share, std::less<>> shares_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
