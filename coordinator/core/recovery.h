// What a coordinator's core is constructed from after a restart: what its records and commits made
// durable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"

namespace longhaul::coordinator {

// A contributor by its place, and the incarnation whose bytes lie in the log.
struct Contributor {
  int ordinal = 0;
  std::string pool, incarnation;
};

struct RecoveredPlace {
  std::string pool, incarnation;
  int ordinal = 0;
  std::optional<int64_t> start_step;
  bool gone = false;
  // InfinitePast: not away.
  absl::Time return_until = absl::InfinitePast();
};

// What a job's store holds when it was opened.
struct RecoveredFragment {
  // The newest durable commit. -1: not seeded.
  int64_t version = -1;
  // Of that commit.
  std::string evaluator;
  // Whose whole contribution to version + 1 is in the log, by pool and incarnation; the ordinal is
  // for the core to find. Those that could not count are ignored.
  std::vector<Contributor> contributors;
};

struct RecoveredJob {
  std::string job;
  JobOptions options;
  JobState state = JobState::kPending;
  // It was reported already.
  bool final_evaluation = false;
  // Also those that are gone, so that no ordinal is given twice.
  std::vector<RecoveredPlace> places;
  // Of a checkpoint that was asked for and is not there yet. 0: none.
  int64_t checkpoint_asked = 0;
  // Why this program cannot use the job: it is quarantined. `options` has the name alone then.
  std::optional<JobFault> unusable;
};

// Jobs in the order of their submission; those that ended need not be here.
struct Recovery {
  std::vector<RecoveredJob> jobs;
  // Deleted ones whose files may still be there.
  std::vector<std::string> removing;
};

}  // namespace longhaul::coordinator
