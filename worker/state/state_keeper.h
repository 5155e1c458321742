// Keeps what a pool's inner optimizer remembers at the pool's site, and takes it up again when the
// pool's ranks begin again: after a rank or an agent was killed, after a drain, after a restart of the
// machine. Every rank writes what it holds (SavedStates) every `every`, and when the pool drains. At
// the end of a step it copies its state to memory, which takes training as long as that copy; a thread
// writes the copy beside training. If that takes longer than `every`, saves come later.
//
// Memory: a copy of the rank's state. Disk: of each rank at most the newest save that every rank of the
// pool has whole, one that is newer, and one that is being written; until the first one is whole, also
// those of an earlier start.
//
// The parameters are not among it: a pool begins from the outer parameters of the coordinator, at a
// step that the coordinator gives. State of another step is used as it is, with its own counters (bias
// correction, frozen variance), unless the two steps are more than `age_max` apart, in either direction:
// moments are averages of gradients at parameters of that time, and a pool that was away for long is
// better off with none. A pool that begins a job at its first step takes nothing up.
//
// What is damaged, of another job or spec, of a later version, or not here (a pool's files may lie at
// another node) is left out and told about; if then no save is whole on all ranks, the optimizer begins
// at zero, which is counted. Failures to write are told and counted, too: training goes on.
//
// Used by the training thread. Collective methods are called by all ranks of the pool at the same steps,
// also by ranks that keep nothing: if one does not, none does. Their errors are the replica's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/io/filesystem.h"
#include "common/logging/logging.h"
#include "worker/replica/replica.h"
#include "worker/state/saved_states.h"

namespace longhaul {

// What a pool tells of the state that it keeps. All zeros: it keeps none.
struct StateReport {
  int64_t taken_up_step = 0;  // Of the save with which it began. 0: with zeros.
  int64_t saved_step = 0;     // The newest that every rank of the pool is known to have.
  int64_t losses = 0;         // Began at zero, behind the job's first step, though state was there.
  int64_t failures = 0;       // To write, of the rank with most.
  friend bool operator==(const StateReport&, const StateReport&) = default;
};

// State that is kept beside the replica's, by functions of the training thread. Optional kinds alone.
struct StateBeside {
  // Adds to what the replica gave, parts from `index` on.
  std::function<absl::Status(size_t index, InnerState& state)> take;
  std::function<std::vector<InnerStateSlot>()> slots;
  // The parts that were there.
  std::function<absl::Status(const InnerState& state)> put;
};

class StateKeeper {
 public:
  struct Options {
    std::string folder;  // Of all jobs of all pools (--state-dir). Empty: nothing is kept.
    StateOwner owner;    // `layout` is filled in.
    uint64_t life = 0;
    absl::Duration every = absl::Minutes(1);
    int64_t age_max = 1000;      // In steps.
    bool first_of_node = false;  // It removes what belongs to no rank any more.
    Logger log = Logger({});
  };
  // `replica`, `clock` and `fs` outlive the object.
  StateKeeper(Options options, Replica* replica, const Clock* clock, FileSystem* fs);
  // Waits for what is being written.
  ~StateKeeper();

  void KeepBeside(StateBeside beside) { beside_ = std::move(beside); }

  // Before the first step of the pool's ranks, which follows `start_step`. Collective.
  absl::Status Resume(int64_t start_step);
  // After every step. `last`: the pool drains, so this is saved whatever the time. Nothing is saved while
  // the ranks differ by local steps. Collective.
  absl::Status AfterStep(int64_t step, bool last);
  // The pool drains behind this step, if that was not saved: for where a collective cannot be, since
  // not all ranks need have come so far. Then it is of no use, and an earlier save is used. Local.
  void SaveAlone(int64_t step);
  // Waits until what was taken is written. Local.
  void Finish();
  // The job has ended: removes what this rank wrote, and the rest that nobody removes; writes no more.
  // Any thread. Waits for what is being written. Call before the process may learn that it is to end.
  void Forget() ABSL_LOCKS_EXCLUDED(files_mutex_);

  const StateReport& report() const { return report_; }

 private:
  struct Writing {
    bool busy = false;
    int64_t durable_step = 0, failures = 0;
  };

  // Which saves all ranks could take up, newest first. Sets keeps_.
  absl::StatusOr<std::vector<SaveId>> AgreeOnSaves(const SavedStates& saved);
  absl::StatusOr<bool> TakeUp(const SavedStates& saved, const SaveId& save, int64_t start_step);
  bool CanUse(const SavedStates& saved, const SaveId& save) const;
  std::vector<InnerStateSlot> SlotsOf(absl::Span<const NamedValue> phase) const;
  void TellPlan() const;
  void TellZero(int64_t start_step);
  absl::Status Save(int64_t step, bool alone);
  // On the thread that writes.
  void Write(int64_t step, int64_t whole_step) ABSL_LOCKS_EXCLUDED(files_mutex_);
  absl::Status WriteFile(int64_t step) const;
  void RemoveOld(int64_t step, int64_t whole_step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_mutex_);
  bool IsInherited(absl::string_view name, int64_t step) const;
  Writing writing() const ABSL_LOCKS_EXCLUDED(mutex_);

  Options options_;
  Replica* const replica_;
  const Clock* const clock_;
  FileSystem* const fs_;
  const std::string folder_;  // Of the job. Empty: nothing is kept.
  StateBeside beside_;
  bool keeps_ = false;  // All ranks do.
  StateReport report_;
  int64_t whole_step_ = 0;        // The newest save of this life that every rank has. 0: none.
  bool something_saved_ = false;  // At some rank, when they began.
  std::string problem_;           // Why saves were of no use.
  bool paced_ = false;
  int64_t begun_behind_ = 0, taken_step_ = 0;  // The start step; the newest copy's.
  int64_t next_ = 0, last_look_ = 0;  // Steps: of the next save, and of the agreement before it.
  absl::Time looked_;
  std::vector<std::string> inherited_;  // Files of earlier starts.
  // Of the thread that writes while that is busy, else of the training thread.
  InnerState copy_;
  std::vector<int64_t> own_steps_;  // Of this rank's files of this life.
  bool told_pace_ = false;

  absl::Mutex files_mutex_;  // Held while files are written or removed.
  bool forgotten_ ABSL_GUARDED_BY(files_mutex_) = false;
  mutable absl::Mutex mutex_;
  Writing writing_ ABSL_GUARDED_BY(mutex_);
  std::jthread writer_;
};

}  // namespace longhaul
