// Keeps what a pool's inner optimizer remembers at the pool's site, and takes it up again when the
// pool's ranks begin again: after a rank or an agent was killed, after a drain, after a restart of
// the machine. Every rank writes what it holds (SavedStates) every `every`, and when the pool
// drains. At the end of a step it copies its state to memory, which takes training as long as that
// copy; a thread writes the copy beside training. If that takes longer than `every`, saves come
// later.
//
// Memory: a copy of the rank's state. Disk: of each rank at most the newest save that every rank of
// the pool has whole, one that is newer, and one that is being written; until the first one is
// whole, also those of an earlier start.
//
// The parameters are not among it: a pool begins from the outer parameters of the coordinator, at a
// step that the coordinator gives. State of another step is used as it is, with its own counters
// (bias correction, frozen variance), unless the two steps are more than `age_max` apart, in either
// direction: moments are averages of gradients at parameters of that time, and a pool that was away
// for long is better off with none. A pool that begins a job at its first step takes nothing up.
//
// What is damaged, of another job or spec, of a later version, or not here (a pool's files may lie
// at another node) is left out and told about; if then no save is whole on all ranks, the optimizer
// begins at zero, which is counted. Failures to write are told and counted, too: training goes on.
//
// Used by the training thread. Collective methods are called by all ranks of the pool at the same
// steps, also by ranks that keep nothing: if one does not, none does. Their errors are the
// replica's.
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
  // The step of the save with which the ranks began. 0: they began at zero.
  int64_t taken_up_step = 0;
  // The step of the newest save that every rank of the pool is known to have.
  int64_t saved_step = 0;
  // How often the ranks began at zero after the job's first step, although there was state.
  int64_t losses = 0;
  // How many writes failed, on the rank with the most failures.
  int64_t failures = 0;
  friend bool operator==(const StateReport&, const StateReport&) = default;
};

// State that is kept together with the replica's. Its slots have optional kinds. The functions are
// called on the training thread.
struct StateBeside {
  // Adds its parts to those of the replica, from `index` on.
  std::function<absl::Status(size_t index, InnerState& state)> take;
  std::function<std::vector<InnerStateSlot>()> slots;
  // Takes back those of its parts that `state` has.
  std::function<absl::Status(const InnerState& state)> put;
};

class StateKeeper {
 public:
  struct Options {
    // The folder for all jobs of all pools (--state-dir). Empty: nothing is kept.
    std::string folder;
    // The object fills in `layout`.
    StateOwner owner;
    // See StateTag.
    uint64_t life = 0;
    // The ranks of a pool take the longest of theirs.
    absl::Duration every = absl::Minutes(1);
    // A save that is further from the start step than this many steps is not used.
    int64_t age_max = 1000;
    // This rank removes files that belong to no rank any more.
    bool first_of_node = false;
    Logger log = Logger({});
  };
  // `replica`, `clock` and `fs` outlive the object.
  StateKeeper(Options options, Replica* replica, const Clock* clock, FileSystem* fs);
  // Waits for what is being written.
  ~StateKeeper();

  void KeepBeside(StateBeside beside) { beside_ = std::move(beside); }

  // Puts back the newest save that all ranks can use. Call it before the ranks' first step, which
  // is the one after `start_step`. Collective; blocks on the disk.
  absl::Status Resume(int64_t start_step);
  // Call it after every step. Copies the state if it is time for a save, or if `last`: the pool
  // drains. While the ranks differ by local steps it saves nothing; if `last`, it settles them
  // first. Collective.
  absl::Status AfterStep(int64_t step, bool last);
  // Saves the state of the step after which the pool drains, if AfterStep did not. It is for a rank
  // that cannot call a collective, since the others may not have reached this step. If one has not,
  // an earlier save is used later. Local; blocks until an earlier save is written.
  void SaveAlone(int64_t step);
  // Waits until everything that was copied is written. Local.
  void Finish();
  // Call it when the job has ended, before this process may learn that it is to end. Removes this
  // rank's files, and those that belong to no rank; nothing is written any more. Any thread. Waits
  // for a write in progress.
  void Forget() ABSL_LOCKS_EXCLUDED(files_mutex_);

  const StateReport& report() const { return report_; }

 private:
  struct Writing {
    bool busy = false;
    int64_t durable_step = 0, failures = 0;
  };

  // Which saves all ranks could take up, newest first. Sets keeps_ and options_.every.
  absl::StatusOr<std::vector<SaveId>> AgreeOnSaves(const SavedStates& saved);
  absl::StatusOr<bool> TakeUp(const SavedStates& saved, const SaveId& save, int64_t start_step);
  bool CanUse(const SavedStates& saved, const SaveId& save) const;
  std::vector<InnerStateSlot> SlotsOf(absl::Span<const NamedValue> phase) const;
  void TellPlan() const;
  void TellZero(const SavedStates& saved, int64_t start_step);
  // What of `save` could not be put back, although the optimizer can go on without it.
  void TellLeftOut(const SaveId& save, absl::Span<const InnerStateSlot> slots,
                   const InnerState& state) const;
  // What lies at this node of the newest save, for a pool that cannot use it.
  std::string DescribeNewest(const SavedStates& saved) const;
  // Whether the data has other sizes than when `saved` was saved.
  void TellChangedData(const std::vector<NamedValue>& saved) const;
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
  // The job's folder. Empty: nothing is kept.
  const std::string folder_;
  StateBeside beside_;
  // Whether all ranks keep state.
  bool keeps_ = false;
  StateReport report_;
  // The newest save of this life that every rank has. 0: none.
  int64_t whole_step_ = 0;
  // Whether some rank had files when the ranks began.
  bool something_saved_ = false;
  // Why saves were of no use.
  std::string problem_;
  bool paced_ = false;
  // The start step; the step of the newest copy.
  int64_t begun_behind_ = 0, taken_step_ = 0;
  // The step of the next save; the step at which the ranks last agreed, and when that was.
  int64_t next_ = 0, last_look_ = 0;
  absl::Time looked_;
  // Files of earlier starts.
  std::vector<std::string> inherited_;
  // The writing thread uses these while it is busy, otherwise the training thread.
  InnerState copy_;
  // The steps of this rank's files of this life.
  std::vector<int64_t> own_steps_;
  bool told_pace_ = false;

  // Held while files are written or removed.
  absl::Mutex files_mutex_;
  bool forgotten_ ABSL_GUARDED_BY(files_mutex_) = false;
  mutable absl::Mutex mutex_;
  Writing writing_ ABSL_GUARDED_BY(mutex_);
  std::jthread writer_;
};

}  // namespace longhaul
