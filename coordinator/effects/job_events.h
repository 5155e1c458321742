// The newest events of a job, numbered, for people to read. They are kept in memory while the job
// lives, and are written into the database within a second. No decision depends on them.
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
  // Of message and hint; of code and pool.
  static constexpr size_t kMessageBytesMax = 1024, kNameBytesMax = 255;

  // Gives the event its number and time, bounds its texts, and adds it. The oldest is dropped if
  // there are too many.
  void Add(v1::JobEvent event, absl::Time now);
  // The events after a sequence, oldest first.
  std::vector<v1::JobEvent> After(int64_t sequence) const;

  // The events that are not in the database yet. Saved reports that those up to `newest` are, where
  // `newest` is its value at the time of Unsaved.
  std::vector<EventRecord> Unsaved(const std::string& job_id) const;
  int64_t newest() const { return newest_; }
  void Saved(int64_t newest) { saved_ = newest; }
  // Takes the events from the database: bytes of JobEvent, oldest first. Events that do not parse
  // are left out.
  void Restore(const std::vector<std::string>& events);

 private:
  std::deque<v1::JobEvent> events_;
  int64_t newest_ = 0, saved_ = 0;
};

// Notices outer gradients with an unusual norm: not finite, or many times the usual norm of their
// fragment. It reports once, until norms are usual again.
class NormWatch {
 public:
  // The text of an alert, if this commit needs one.
  std::optional<std::string> Observe(const CommitRecord& commit);
  // That text, while the norms of some fragment are unusual. Empty: of none.
  std::string alert() const;

 private:
  struct Fragment {
    // Usual norms, the newest last.
    std::deque<double> norms;
    // Of the commit from which on they are unusual. Empty: they are not.
    std::string alert;
  };
  std::map<int, Fragment> fragments_;
};

// --- The events of a decision. Pure.

v1::JobEvent EventOf(const StoreJobState& record);
// Not of kNone.
v1::JobEvent EventOf(const StorePause& record);
v1::JobEvent EventOf(const StorePlace& record);
v1::JobEvent EventOf(const PoolPresence& notice);
v1::JobEvent EventOf(const PoolFellBehind& notice);
v1::JobEvent EventOf(const PoolLeftOut& notice);
v1::JobEvent EventOf(const PoolSetAside& notice);
// The event of a job that is QUARANTINED.
v1::JobEvent EventOf(const EndJob& notice);
// The event of a skipped round.
v1::JobEvent EventOf(const PublishCommit& notice);
v1::JobEvent MakeEvent(v1::EventKind kind, v1::EventSeverity severity, std::string message);

}  // namespace longhaul::coordinator
