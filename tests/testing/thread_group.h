// Where the threads of a ThreadCommunicator group meet: every rank shows its call, all ranks see
// all calls, and all leave together.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/collective/parts.h"

namespace longhaul {

// Thread-safe.
class ThreadGroup {
 public:
  // What one rank brings. Pointers stay valid until the rank has returned from Leave.
  struct Call {
    absl::string_view operation;
    // Equal on all ranks.
    std::vector<int64_t> sizes;
    const void* input = nullptr;
    // Only for all-to-all.
    absl::Span<const Part> send_parts, receive_parts;
  };

  explicit ThreadGroup(int size) : calls_(size), arrived_(size), departed_(size) {}

  // Blocks until every rank has come. OK: this rank may read every call's input until it calls
  // Leave, which it must. DEADLINE_EXCEEDED names the ranks that did not come, CANCELLED those that
  // never will, UNAVAILABLE the reason of Abort, FAILED_PRECONDITION how the calls differ. Any
  // error aborts the group.
  absl::Status Meet(int rank, Call call, absl::Duration timeout);
  const Call& call(int rank) const { return calls_[rank]; }

  // Blocks until every rank has stopped reading. Always returns soon, since no rank waits between
  // Meet and Leave.
  void Leave();

  void Abort(absl::string_view reason);

  // Rank `rank` will not come again.
  void Depart(int rank);

 private:
  int size() const { return static_cast<int>(calls_.size()); }
  absl::Status EndOf(absl::string_view operation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string MissingRanks(const std::vector<bool>& present) const;
  bool WaitsForDeparted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckCallsAgree() const;

  absl::Mutex mutex_;
  // A rank writes its own call under the mutex before the meeting is complete. Between completion
  // and Leave calls are only read.
  std::vector<Call> calls_;
  std::vector<bool> arrived_ ABSL_GUARDED_BY(mutex_), departed_ ABSL_GUARDED_BY(mutex_);
  int arrived_count_ ABSL_GUARDED_BY(mutex_) = 0;
  // Ranks between Meet and Leave.
  int readers_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t meetings_ ABSL_GUARDED_BY(mutex_) = 0;
  // Not OK if the group is aborted.
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
