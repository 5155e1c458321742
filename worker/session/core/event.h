// What happens to a rank's session. The shell makes these plain values from the WatchPlan stream,
// the transfers and the trainer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/schedule/round_kind.h"
#include "common/schedule/schedule.h"

namespace longhaul::session {

// The part of a fragment's commit that the core uses.
struct Commit {
  int64_t version = -1;
  RoundKind kind = RoundKind::kSeed;
  // The commit's evaluator is this pool.
  bool evaluate = false;
  // This pool is among the commit's pools.
  bool contributed = false;
  // With the contribution of an earlier incarnation.
  bool earlier = false;
};

struct FragmentPlan {
  FragmentSchedule schedule;
  // version -1: the fragment is not seeded yet.
  Commit newest;
  // The coordinator has this pool's whole contribution to newest.version + 1.
  bool contributed = false;
  // The round that makes newest.version + 1 is called.
  bool called = false;
};

// Plan of sync.proto.
struct Plan {
  int64_t steps = 0;
  double alpha = 0.5;
  bool final_round = true;
  int64_t start_step = 0;
  int ordinal = 0;
  // This pool is asked to seed.
  bool seed = false;
  // The pool evaluates its own parameters after the first cycle, and then every so many cycles. 0:
  // never.
  int64_t pool_evaluation_cycles = 0;
  // The same for the outer parameters, in addition to what commits ask for.
  int64_t outer_evaluation_cycles = 0;
  // The pool evaluates the outer parameters after the last round, even if no commit asks for it.
  bool all_evaluate_last = false;
  // Rounds may go on without this pool (sync.mode QUORUM).
  bool quorum = false;
  std::vector<FragmentPlan> fragments;
};

// --- The WatchPlan stream.
struct PlanReceived {
  Plan plan;
};
// WatchPlan was refused. Never POOL_UNKNOWN, which the shell retries by itself: the pool's agent is
// about to join again.
struct PlanRefused {
  absl::Status status;
  std::string reason;
};
struct SeedRequested {};
struct CommitPublished {
  int fragment = 0;
  Commit commit;
};
// Only with Plan::quorum.
struct RoundCalled {
  int fragment = 0;
  int64_t version = 0;
};
struct Ended {
  std::string reason;
};
// The stream was lost. The shell drops every transfer that has begun: none of them reports after
// this. The core asks again for what it still needs after the next PlanReceived.
struct Disconnected {};

// --- Transfers.
// The outer parameters were pulled whole, as `version`.
struct PulledWhole {
  int fragment = 0;
  int64_t version = 0;
};
// The downlink of `version` was pulled and verified. It waits for Merge.
struct Pulled {
  int fragment = 0;
  int64_t version = 0;
};
// The coordinator has this rank's blocks.
struct PushDone {
  int fragment = 0;
  int64_t version = 0;
};
// The coordinator refused the push for good. `reason` is that of ErrorInfo. `have`: the
// coordinator's version, with VERSION_MISMATCH. The shell retries damaged bytes (DATA_LOSS),
// POOL_UNKNOWN and a server that shuts down by itself. A lost connection is Disconnected.
struct PushRefused {
  int fragment = 0;
  int64_t version = 0;
  absl::Status status;
  std::string reason;
  std::optional<int64_t> have;
};
// The coordinator refused the pull; or the bytes do not have the commit's digest, even after they
// were pulled again.
struct PullRefused {
  int fragment = 0;
  absl::Status status;
  std::string reason;
};

// --- The training thread.
// Answer to AgreeOnVersions: versions[rank][fragment].
struct VersionsAgreed {
  std::vector<std::vector<int64_t>> versions;
};
// The same on all ranks. `drain`: one of the ranks was asked to stop, and the ranks agreed that
// this step is their last. `called`: the furthest called_step() of all ranks; 0 without
// Plan::quorum.
struct StepDone {
  int64_t step = 0;
  bool drain = false;
  int64_t called = 0;
};
// The training thread has performed the last Merge of this fragment.
struct Merged {
  int fragment = 0;
};
// Answer to AgreeOnMerge: all ranks can merge it. The same on all ranks.
struct MergeAgreed {
  bool here = false;
};

// --- From outside.
// The pool was asked to stop. If an inner step runs, a later StepDone says which step is the last.
// Otherwise no step follows: the rank has not begun, or it waits for a commit, and no other
// rank can get past that without it. `stopped`: the training thread cannot go on, because another
// rank of the pool has stopped.
struct Drain {
  bool stopped = false;
};

using Event = std::variant<PlanReceived, PlanRefused, SeedRequested, CommitPublished, RoundCalled,
                           Ended, Disconnected, PulledWhole, Pulled, PushDone, PushRefused,
                           PullRefused, VersionsAgreed, StepDone, MergeAgreed, Merged, Drain>;

}  // namespace longhaul::session
