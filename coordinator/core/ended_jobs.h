// What is left to do for jobs that have ended, until nothing of them is in memory:
//
//   last checkpoint owed --written--> log kept --removed--> cleaned up
//   any of these --deleted by a user or for its age--> files kept --removed--> gone
//
// A job that was cancelled or failed is owed a checkpoint of what it committed. Its log is kept
// until that is written, and for a minute after the end, since its pools may pull the last commits
// so long. Then its store is closed, which gives its memory back once the last work and stream has
// ended, and the log is removed. A job that ended when its store was closed, or before a restart,
// is opened once more for its checkpoint when there is memory.
//
// A part of the core: pure, externally synchronised. Each job has at most one work at a time; its
// end is an event. Advance decides what follows.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "coordinator/core/decision.h"
#include "coordinator/core/event.h"
#include "coordinator/core/job.h"
#include "coordinator/core/recovery.h"

namespace longhaul::coordinator {

// Whether a checkpoint of an ended job's last versions is owed.
enum class LastCheckpoint {
  // The log tells: the job ended before a restart, or while its store was closed.
  kUnknown,
  kOwed,
  // It is written, or there can be none.
  kNotOwed,
  // It could not be made. The log is kept, and the next start of the coordinator tries again.
  kFailed,
};

struct EndedJob {
  std::string name;
  JobState state = JobState::kCompleted;
  // Without a schedule until it is needed, if the job ended before a restart.
  JobOptions options = {};
  // The pools that had a place. They may read while the store is open.
  std::set<std::string, std::less<>> pools = {};
  StoreState store = StoreState::kClosed;
  LastCheckpoint checkpoint = LastCheckpoint::kUnknown;
  // By fragment: what the checkpoint is of.
  std::vector<int64_t> versions = {};
  // Until when the store stays open for the pools.
  absl::Time read_until = absl::InfinitePast();
  // A work is in progress, whose end is awaited.
  bool busy = false;
  // Its store is opened when there is memory.
  bool awaits_memory = false;
  // Why the checkpoint is not written yet, as it was reported last.
  std::string trouble = {};
  bool deleted = false;
  // When it is looked at next. InfiniteFuture: after the end of its work, or of another job's.
  absl::Time due = absl::InfiniteFuture();
};

class EndedJobs {
 public:
  EndedJobs(const Recovery& recovery, absl::Time now);

  // The job ended now. `writing`: its last checkpoint is being written. `versions`: it is owed one
  // of these. Neither: there can be none if its store is open.
  void Add(const Job& job, bool writing, std::vector<int64_t> versions, absl::Time now);
  // Null: the job has not ended, or nothing is left to do for it.
  const EndedJob* Find(std::string_view id) const;
  // A job whose record is deleted. It need not be known here.
  void Delete(const std::string& id, absl::Time now);
  // The bytes that stores of these jobs take, also while they are opened or closed.
  int64_t memory() const { return memory_; }

  // Another job's store was closed.
  void MemoryFreed(absl::Time now);

  // The ends of works. They do nothing if the job is not one of these.
  void On(const StoreOpened& event, absl::Time now, Decision& out);
  void On(const OpenFailed& event, absl::Time now, Decision& out);
  void On(const StoreFailed& event, absl::Time now, Decision& out);
  void On(const CheckpointWritten& event, absl::Time now, Decision& out);
  void On(const CheckpointFailed& event, absl::Time now, Decision& out);
  void On(const StoreClosed& event, absl::Time now, Decision& out);
  void On(const LogRemoved& event, absl::Time now, Decision& out);
  void On(const LogNeeded& event, absl::Time now, Decision& out);
  void On(const LogRemovalFailed& event, absl::Time now, Decision& out);
  void On(const FilesRemoved& event, absl::Time now, Decision& out);
  void On(const RemoveFailed& event, absl::Time now, Decision& out);

  // Begins what is due. `memory_left` counts these jobs, too.
  void Advance(absl::Time now, absl::FunctionRef<int64_t()> memory_left, Decision& out);

 private:
  EndedJob* FindJob(std::string_view id);
  void SetStore(EndedJob& job, StoreState store);
  void SetDue(const std::string& id, EndedJob& job, absl::Time due);
  // Its work has ended; it is looked at again at `due`.
  void WorkEnded(const std::string& id, EndedJob& job, absl::Time due);
  // Lets the next job remove its log. False: none waits.
  bool NextTurn(absl::Time now);
  void Next(const std::string& id, EndedJob& job, absl::Time now,
            absl::FunctionRef<int64_t()> memory_left, Decision& out);
  void MakeCheckpoint(const std::string& id, EndedJob& job, absl::Time now,
                      absl::FunctionRef<int64_t()> memory_left, Decision& out);
  void Forget(const std::string& id, Decision& out);

  std::map<std::string, EndedJob, std::less<>> jobs_;
  std::set<std::pair<absl::Time, std::string>> due_;
  int64_t memory_ = 0;
  // The log of one job is removed at a time. The others wait for their turn.
  bool removing_log_ = false;
  std::deque<std::string> turns_;
};

}  // namespace longhaul::coordinator
