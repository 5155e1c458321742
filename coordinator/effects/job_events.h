// The events of a job: the newest ones, numbered, for people to read. Kept in memory while the job
// lives, and in the database, into which they are written within a second. Nothing is decided by
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/decision.h"
#include "coordinator/store/meta_records.h"
#include "coordinator/store/round_records.h"
#include "longhaul/v1/event.pb.h"

namespace longhaul::coordinator {

// Owner thread.
class JobEvents {
 public:
  static constexpr size_t kEventsMax = 500;
  static constexpr size_t kMessageBytesMax = 1024;

  // Numbers and times it; the oldest is forgotten.
  void Add(v1::JobEvent event, absl::Time now);
  // Those behind a sequence, oldest first.
  std::vector<v1::JobEvent> After(int64_t sequence) const;

  // What is not in the database yet. Saved says that it is, up to `newest`, as it was then.
  std::vector<EventRecord> Unsaved(const std::string& job_id) const;
  int64_t newest() const { return newest_; }
  void Saved(int64_t newest) { saved_ = newest; }
  // As the database has them: bytes of JobEvent, oldest first. What does not parse is left out.
  void Restore(const std::vector<std::string>& events);

 private:
  std::deque<v1::JobEvent> events_;
  int64_t newest_ = 0, saved_ = 0;
};

// Notices outer gradients that are out of proportion: not finite, or many times the usual norm of
// their fragment. Once, until they are usual again.
class NormWatch {
 public:
  // The alert's words, if this commit deserves one.
  std::optional<std::string> Observe(const CommitRecord& commit);

 private:
  struct Fragment {
    std::deque<double> norms;  // Usual ones, newest last.
    bool alerted = false;
  };
  std::map<int, Fragment> fragments_;
};

// --- What is told of a decision. Pure.

v1::JobEvent EventOf(const StoreJobState& record);
v1::JobEvent EventOf(const StorePlace& record);
v1::JobEvent EventOf(const PoolPresence& notice);
v1::JobEvent EventOf(const PoolSetAside& notice);
// Of a QUARANTINED job.
v1::JobEvent EventOf(const EndJob& notice);
// Of a skipped round.
v1::JobEvent EventOf(const PublishCommit& notice);
v1::JobEvent MakeEvent(v1::EventKind kind, v1::EventSeverity severity, std::string message);

}  // namespace longhaul::coordinator
