// What happens to a rank's session. Plain facts, made by the shell: the WatchPlan stream, the
// transfers, the trainer.
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

// A committed version of a fragment, as far as the core cares.
struct Commit {
  int64_t version = -1;
  RoundKind kind = RoundKind::kSeed;
  bool evaluate = false;     // The commit's evaluator is this pool.
  bool contributed = false;  // This pool is among the commit's pools.
};

struct FragmentPlan {
  FragmentSchedule schedule;
  Commit newest;  // version -1: not seeded yet.
  bool contributed =
      false;  // The coordinator holds this pool's whole contribution to newest.version + 1.
};

// Plan of sync.proto.
struct Plan {
  int64_t steps = 0;
  double alpha = 0.5;
  bool final_round = true;
  int64_t start_step = 0;
  int ordinal = 0;
  bool seed = false;  // This pool is asked to seed.
  // Its own parameters are evaluated each so many cycles, and after the first. 0: never.
  int64_t pool_evaluation_cycles = 0;
  std::vector<FragmentPlan> fragments;
};

// --- The WatchPlan stream. Before Disconnected the shell gives up every transfer under way: no
// answer of one follows it. What is still wanted is asked for again after the next PlanReceived.
struct PlanReceived {
  Plan plan;
};
// WatchPlan was refused. The shell itself retries POOL_UNKNOWN: the pool's agent is about to join
// again.
struct PlanRefused {
  absl::Status status;
  std::string reason;
};
struct SeedRequested {};
struct CommitPublished {
  int fragment = 0;
  Commit commit;
};
struct Ended {
  std::string reason;
};
struct Disconnected {};

// --- Transfers.
// The outer parameters came whole and are in place (outer and live), as `version`.
struct PulledWhole {
  int fragment = 0;
  int64_t version = 0;
};
// The downlink of `version` is here and its digest is right; it waits for Merge.
struct Pulled {
  int fragment = 0;
  int64_t version = 0;
};
// This rank's blocks are at the coordinator.
struct PushDone {
  int fragment = 0;
  int64_t version = 0;
};
// The coordinator refused for good, `reason` is that of ErrorInfo. `have`: its version, with
// VERSION_MISMATCH. The shell itself retries damaged bytes (DATA_LOSS), POOL_UNKNOWN and a server
// that goes down; a lost connection is Disconnected.
struct PushRefused {
  int fragment = 0;
  int64_t version = 0;
  absl::Status status;
  std::string reason;
  std::optional<int64_t> have;
};
// Refused, or what came does not have the commit's digest, also when it was pulled again.
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
// `drain`: the ranks agreed, in this step, that it is their last one, because one of them was asked
// to stop. The same on all ranks.
struct StepDone {
  int64_t step = 0;
  bool drain = false;
};

// --- From outside. The pool was asked to stop. Where an inner step runs, StepDone tells when it is
// the last; elsewhere none follows: before the first step, or where this rank waits for a commit,
// no other rank can pass it. `stopped`: the training thread cannot go on, since another rank of the
// pool has stopped.
struct Drain {
  bool stopped = false;
};

using Event = std::variant<PlanReceived, PlanRefused, SeedRequested, CommitPublished, Ended,
                           Disconnected, PulledWhole, Pulled, PushDone, PushRefused, PullRefused,
                           VersionsAgreed, StepDone, Drain>;

}  // namespace longhaul::session
