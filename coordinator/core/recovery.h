// What a coordinator's core is constructed from after a restart: the content of its durable records
// and commits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/job_fault.h"
#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"
#include "coordinator/job/outer_guard.h"

namespace longhaul::coordinator {

// A contributor, and the incarnation whose bytes are in the log.
struct Contributor {
  int ordinal = 0;
  std::string pool, incarnation;
};

struct RecoveredPlace {
  std::string pool, incarnation;
  int ordinal = 0;
  std::optional<int64_t> start_step;
  bool gone = false;
  // With `gone`: a round was applied without this incarnation. Otherwise the place was given up.
  bool missed = false;
  // InfinitePast if the pool is not away.
  absl::Time return_until = absl::InfinitePast();
};

// What a job's store held when it was opened.
struct RecoveredFragment {
  // The newest durable commit, or -1 if not seeded.
  int64_t version = -1;
  // The evaluator of that commit.
  std::string evaluator;
  // The pools and incarnations whose complete contribution to version + 1 is in the log. The core
  // finds their ordinals, and ignores contributions that cannot count.
  std::vector<Contributor> contributors;
  // Of that commit.
  OuterNote outer = {};
};

struct RecoveredJob {
  std::string job;
  JobOptions options;
  // Who submitted it, or empty if not known.
  std::string owner = {};
  JobState state = JobState::kPending;
  // It was reported already.
  bool final_evaluation = false;
  // Places that are gone are included, so that no ordinal is given twice.
  std::vector<RecoveredPlace> places;
  // The cycle of a checkpoint that was requested and is not written yet, or 0.
  int64_t checkpoint_asked = 0;
  PauseStage pause = PauseStage::kNone;
  // Its guard paused it.
  bool paused_by_guard = false;
  // The newest evaluation of its outer parameters: its step, and its loss.
  std::optional<std::pair<int64_t, double>> evaluation;
  // Why this program cannot use the job, which is therefore quarantined. Then `options` has only
  // the name and what the job begins with.
  std::optional<JobFault> unusable;
};

// A job that has ended, of which the log may still be there.
struct RecoveredEnd {
  std::string job, name;
  JobState state = JobState::kCompleted;
};

struct Recovery {
  // Those that have not ended, in the order of their submission.
  std::vector<RecoveredJob> jobs;
  std::vector<RecoveredEnd> ended;
  // Deleted jobs whose files may still exist.
  std::vector<std::string> removing;
};

}  // namespace longhaul::coordinator
