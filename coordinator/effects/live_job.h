// A job that has not ended, or for which something is left to do (coordinator/core/ended_jobs.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/job_spec.h"
#include "common/config/model_kinds.h"
#include "coordinator/effects/job_events.h"
#include "coordinator/effects/job_health.h"
#include "coordinator/effects/job_history.h"
#include "coordinator/effects/job_progress.h"
#include "coordinator/fragments/job_fragments.h"
#include "coordinator/job/job_fault.h"
#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"
#include "coordinator/store/meta_records.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul::coordinator {

// Owner thread, except `fragments`.
struct LiveJob {
  // As it is stored, except `status`.
  JobRecord record;
  // Empty if this program does not understand the spec; then the job is quarantined.
  std::optional<ResolvedJob> resolved;
  // Null if `resolved` is empty.
  std::shared_ptr<JobFragments> fragments;
  JobProgress progress;
  JobHistory history;
  JobEvents events;
  NormWatch norms;
  JobHealth health;
  // Why the job is quarantined.
  std::optional<JobFault> quarantine;
  // As it is stored. Its report is that of the time when the job became PAUSED.
  PauseRecord pause;
  // What was told of checkpoints that failed since the last one that was written: one that waits
  // for the disk fails again and again, and would drive all other events out.
  std::string checkpoint_trouble;
  // As they were stored last.
  std::string counters;

  explicit LiveJob(JobRecord stored) : record(std::move(stored)), progress(0), history({}) {}
  const std::string& id() const { return record.id; }
  const std::string& name() const { return record.name; }
  JobState state() const { return StateWith(record); }
  // The state that is shown if the job has this record.
  JobState StateWith(const JobRecord& stored) const {
    if (IsEnded(stored.state)) return stored.state;
    if (quarantine.has_value()) return JobState::kQuarantined;
    return ShownState(stored.state, pause.stage);
  }
  // Each on data of its own.
  bool every_pool_evaluates() const {
    return resolved.has_value() && EveryPoolEvaluates(resolved->spec.model());
  }
  int fragment_count() const { return fragments ? fragments->count() : 0; }
  // Requires `fragments`.
  v1::WireBytes wire_bytes() const;
};

// UNIMPLEMENTED: a codec that this build lacks.
absl::StatusOr<std::shared_ptr<LiveJob>> MakeLiveJob(JobRecord record, ResolvedJob resolved);

// Sets what a job begins with, also if this program does not understand the rest of its spec.
void SetBeginning(const v1::InitSpec& init, JobOptions& options);
// The most bytes that the job's state takes while its store is open. Pure.
int64_t MemoryOf(const ResolvedJob& resolved);
// The step of the curve at which an evaluation of the job's outer parameters of this version
// belongs. `final`: of those after the last round. Requires 0 <= version.
int64_t StepOfEvaluation(const ResolvedJob& resolved, int64_t version, bool final);
// What its guard compares with, and does. `spec` has its defaults.
GuardOptions GuardOf(const v1::JobSpec& spec);
// What the core needs to know of a job.
JobOptions JobOptionsOf(const ResolvedJob& resolved);

}  // namespace longhaul::coordinator
