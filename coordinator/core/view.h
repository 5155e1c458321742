// What the coordinator's core shows of itself: values for reports and plans.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/decision.h"
#include "coordinator/job/job_fault.h"
#include "coordinator/job/lifecycle.h"

namespace longhaul::coordinator {

// What a job waits for, as a text; since when, and until when at most (InfiniteFuture: without a
// limit).
struct Waiting {
  std::string what;
  absl::Time since, until;
};

struct ParticipantView {
  std::string pool, incarnation;
  int ordinal = 0;
  // Empty if its ranks are not ready yet.
  std::optional<int64_t> start_step;
  bool live = false;
  // As in its last heartbeat.
  int64_t inner_step = 0;
  // The pool drains and does no step after this one.
  std::optional<int64_t> last_step;
  // Rounds that went on without it although it was live, and those since it contributed last.
  int64_t late_rounds = 0;
  int64_t late_in_a_row = 0;
};

struct FragmentView {
  // The committed version, or -1 if not seeded.
  int64_t version = -1;
  // The version after the job's last round of this fragment.
  int64_t last_version = 0;
  // Ordinals of the pools whose current incarnation has contributed to version + 1.
  std::vector<int> contributors;
  // The round that makes version + 1 is called.
  bool called = false;
  // It is closed, and being applied.
  bool applying = false;
};

// A pool that cannot do a job now.
struct SetAsideView {
  std::string job, pool;
  JobFault fault;
  int failures = 0;
  absl::Time retry_at;
};

struct DivergenceView {
  std::string words;
  absl::Time since;
  // The evaluation before was bad, too.
  bool lasts = false;
};

struct JobView {
  JobState state = JobState::kPending;
  std::optional<JobFault> fault;
  std::optional<Waiting> waiting;
  // Set while the newest evaluation of the outer parameters is bad: what it says, and since when.
  std::optional<DivergenceView> divergence;
  // By ordinal. Lost pools and pools that left are included.
  std::vector<ParticipantView> participants;
  std::vector<FragmentView> fragments;
  // By pool. `job` is its name.
  std::vector<SetAsideView> set_aside;
};

// The numbers are those of v1::PoolState.
enum class PoolState {
  kIdle = 1,
  kAssigned = 2,
  kParticipating = 3,
  kLost = 4,
  kDraining = 5,
  kAway = 6,
  kForming = 7,
};

struct PoolView {
  std::string pool, incarnation;
  int ranks = 0;
  // In the past if the pool is lost.
  absl::Time lease_end;
  PoolState state = PoolState::kIdle;
  std::optional<Assignment> assignment;
  std::vector<SetAsideView> set_aside;
  // The nodes of a pool of several. `missing` names those that are not here, and since when.
  std::vector<NodeView> nodes;
  std::optional<Waiting> missing;
};

struct PoolCounts {
  std::map<PoolState, int> by_state;
  // How many have a lease.
  int live = 0;
};

}  // namespace longhaul::coordinator
