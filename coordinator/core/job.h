// A job as the coordinator's core knows it, until it has ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/decision.h"
#include "coordinator/job/divergence.h"
#include "coordinator/job/job_fault.h"
#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"
#include "coordinator/job/pools_loss.h"
#include "coordinator/pool/set_aside.h"
#include "coordinator/sync/exchange.h"

namespace longhaul::coordinator {

// Until it is closed again, a store takes memory: also while works and streams of it have not ended
// (kClosing).
enum class StoreState { kClosed, kOpening, kOpen, kClosing };
// How far the checkpoint is that ends a job, or with which it pauses.
enum class FinalCheckpoint { kNone, kWriting, kWritten };

// The time after which a work is tried again that a full disk, or another passing fault, held up.
inline constexpr absl::Duration kRetryDelay = absl::Seconds(1);

// A work that failed, and when it is tried again.
struct RetriedWork {
  absl::Time at;
  Work work;
};

struct Job {
  std::string id;
  // The order of its submission.
  int64_t order = 0;
  JobOptions options;
  // Who submitted it, or empty if not known.
  std::string owner;
  Lifecycle lifecycle;
  // The time of the newest change of state, or of the loss of its last pool.
  absl::Time changed_at;
  // Set for FAILED and QUARANTINED, and for CANCELLED with a reason.
  std::optional<JobFault> fault;
  // Empty if the job was quarantined before its spec was understood.
  std::optional<Exchange> exchange;
  StoreState store = StoreState::kClosed;

  // Pools that cannot do the job now.
  SetAsides set_asides;
  // Since when placement cannot give the job what it needs, and what it lacks, as a text.
  std::optional<absl::Time> lacks_since;
  std::string lacks;

  // For FINISHING: whether the evaluation of the last version came; until when it and the pools'
  // last merges are awaited; until when other pools' evaluations are awaited after it; and the
  // checkpoint that follows.
  bool final_evaluation = false;
  // Where every pool evaluates: those whose evaluation of the last version came; and the mean of
  // the newest version.
  std::set<std::string> evaluated_last;
  PoolsLoss pools_loss;
  absl::Time finish_until = absl::InfiniteFuture();
  absl::Time evaluate_until = absl::InfiniteFuture();
  FinalCheckpoint final_checkpoint = FinalCheckpoint::kNone;
  // The job's pause, beside its state. While it is PAUSING: since when; and the checkpoint that is
  // written once its pools have stopped. Pools that do not stop are released at stop_until.
  PauseStage pause = PauseStage::kNone;
  absl::Time paused_at;
  absl::Time stop_until = absl::InfiniteFuture();
  FinalCheckpoint pause_checkpoint = FinalCheckpoint::kNone;
  // What is written is the checkpoint of an earlier pause. This one's follows it.
  bool pause_checkpoint_outdated = false;
  // It was resumed: after the initial parameters no round is applied before as many pools are ready
  // as at its beginning, or all that it got. Else the first one would go on alone, and the others
  // would skip its steps.
  bool gathers = false;
  // Of its outer parameters, since it began or was resumed.
  Divergence divergence;
  // With guard.outer, by fragment: what is usual in it; the verdict on the round that is being
  // applied, from when it is measured, and its pools; and the pools of which the newest commit
  // told, and whether too few others contributed to leave it out. Pools by ordinal.
  struct OuterFragment {
    OuterUsual usual = {};
    std::optional<OuterVerdict> verdict = {};
    std::vector<int> measured = {};
    std::map<int, bool> told = {};
  };
  std::map<int, OuterFragment> outer;
  // The cycle of which a checkpoint was requested, or 0.
  int64_t checkpoint_asked = 0;
  // The newest cycle of which a checkpoint was written since the start.
  int64_t checkpoint_cycle = 0;
  // The time after which the next checkpoint that fails is tried again.
  absl::Duration checkpoint_delay = kRetryDelay;

  // What the coordinator itself lacks for this job, as a text, and since when. Empty: nothing.
  std::string blocked;
  absl::Time blocked_since;
  std::vector<RetriedWork> retries;

  bool ended() const { return lifecycle.ended(); }
  JobState state() const { return lifecycle.state(); }
};

}  // namespace longhaul::coordinator
