// A job as the coordinator's core knows it, until it has ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/decision.h"
#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"
#include "coordinator/pool/set_aside.h"
#include "coordinator/sync/exchange.h"

namespace longhaul::coordinator {

enum class StoreState { kClosed, kOpening, kOpen };
enum class FinalCheckpoint { kNone, kWriting, kWritten };

struct Job {
  std::string id;
  // Of its submission.
  int64_t order = 0;
  JobOptions options;
  Lifecycle lifecycle;
  // Of the newest change of state, or of the loss of its last pool.
  absl::Time changed_at;
  // FAILED or QUARANTINED, or CANCELLED with a reason.
  std::optional<JobFault> fault;
  // None: the job was quarantined before its spec was understood.
  std::optional<Exchange> exchange;
  StoreState store = StoreState::kClosed;

  // Pools that cannot do it now.
  SetAsides set_asides;
  // Since when placement could not give it what it needs, and what it lacks, in words.
  std::optional<absl::Time> lacks_since;
  std::string lacks;

  // FINISHING: whether the evaluation of the last version came, until when it and the pools' last
  // merges are awaited, and the checkpoint behind them.
  bool final_evaluation = false;
  absl::Time finish_until = absl::InfiniteFuture();
  FinalCheckpoint final_checkpoint = FinalCheckpoint::kNone;
  // The cycle of which somebody asked for a checkpoint. 0: none.
  int64_t checkpoint_asked = 0;

  // What the coordinator itself lacks for this job, in words, and since when. Empty: nothing.
  std::string blocked;
  absl::Time blocked_since;
  // Works that could not be done, and when they are begun again.
  std::vector<Work> retries;
  absl::Time retry_at = absl::InfiniteFuture();

  bool ended() const { return lifecycle.ended(); }
  JobState state() const { return lifecycle.state(); }
};

}  // namespace longhaul::coordinator
