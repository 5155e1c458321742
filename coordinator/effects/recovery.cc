#include "coordinator/effects/recovery.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/job_spec.h"
#include "coordinator/effects/refusal.h"

namespace longhaul::coordinator {
namespace {

absl::Status RecoverPlaces(MetaStore& meta, const std::string& id, RecoveredJob* recovered) {
  LH_ASSIGN_OR_RETURN(const std::vector<ParticipantRecord> places, meta.ListParticipants(id));
  std::set<std::string> pools;
  for (const ParticipantRecord& p : places) {
    if (p.ordinal != static_cast<int>(recovered->places.size())) {
      return absl::DataLossError(
          absl::StrCat("place ", recovered->places.size(), " is missing in the database"));
    }
    if (!pools.insert(p.pool).second)
      return absl::DataLossError(absl::StrCat("pool ", p.pool, " has two places in the database"));
    recovered->places.push_back(
        {p.pool, p.incarnation, p.ordinal, p.start_step, p.left, p.missed, p.return_until});
  }
  return absl::OkStatus();
}

// If the counters do not parse, they start at zero.
absl::Status RecoverCounters(MetaStore& meta, LiveJob& job) {
  LH_ASSIGN_OR_RETURN(job.counters, meta.GetCounters(job.id()));
  const store::v1::JobCounters counters = ParseCounters(job.counters);
  const v1::WireBytes& bytes = counters.wire_bytes();
  job.fragments->bytes_up().Add({.payload = bytes.up_payload(), .total = bytes.up_total()});
  job.fragments->bytes_down().Add({.payload = bytes.down_payload(), .total = bytes.down_total()});
  job.progress.Restore(counters);
  return absl::OkStatus();
}

// What was said at submit is in the report that was stored then, whatever this version would say.
// An earlier version stored none.
void RecoverWarnings(const JobRecord& record, ResolvedJob& resolved) {
  v1::Job report;
  if (!report.ParseFromString(record.status) || report.warnings().empty()) return;
  resolved.warnings.assign(report.warnings().begin(), report.warnings().end());
}

// As far as it can be read.
v1::JobSpec SpecOf(const JobRecord& record) {
  v1::JobSpec spec;
  spec.ParseFromString(record.spec);
  return spec;
}

absl::StatusOr<std::shared_ptr<LiveJob>> RecoverJob(MetaStore& meta, const JobRecord& record,
                                                    RecoveredJob* recovered) {
  v1::JobSpec spec;
  if (!spec.ParseFromString(record.spec)) return absl::DataLossError("the stored spec is damaged");
  LH_ASSIGN_OR_RETURN(ResolvedJob resolved, ResolveJobSpec(spec));
  RecoverWarnings(record, resolved);
  recovered->options = JobOptionsOf(resolved);
  LH_ASSIGN_OR_RETURN(std::shared_ptr<LiveJob> job, MakeLiveJob(record, std::move(resolved)));
  LH_RETURN_IF_ERROR(RecoverPlaces(meta, record.id, recovered));
  LH_RETURN_IF_ERROR(RecoverCounters(meta, *job));
  LH_ASSIGN_OR_RETURN(recovered->checkpoint_asked, meta.GetCheckpointRequest(record.id));
  LH_ASSIGN_OR_RETURN(job->pause, meta.GetPause(record.id));
  // An earlier version of the program gave pools to the job, since it does not know of pauses.
  const auto& places = recovered->places;
  if (job->pause.stage == PauseStage::kPaused &&
      !std::all_of(places.begin(), places.end(), [](const auto& place) { return place.gone; }))
    job->pause.stage = PauseStage::kPausing;
  recovered->pause = job->pause.stage;
  recovered->paused_by_guard = job->pause.by == kGuardName;
  LH_RETURN_IF_ERROR(ReadEvaluations(meta, record.id, job->progress));
  recovered->final_evaluation = job->progress.HasFinalEvaluation();
  if (const v1::EvalLoss loss = job->progress.EvaluationLoss(); loss.has_last())
    recovered->evaluation = {loss.last_step(), loss.last()};
  return job;
}

// Jobs by state, and those that have ended of which a log may be there.
absl::Status RecoverEnded(MetaStore& meta, RecoveredState& state) {
  LH_ASSIGN_OR_RETURN(state.jobs_by_state, meta.CountByState());
  LH_ASSIGN_OR_RETURN(state.run_time, meta.GetRunTime());
  LH_ASSIGN_OR_RETURN(const std::vector<JobKey> keys, meta.ListNotCleanedUp());
  for (const JobKey& key : keys) state.core.ended.push_back({key.id, key.name, key.state});
  // Those that another program ended, or that were adopted, count as ended now.
  const absl::Status written = meta.Commit({EndedRunTime{state.run_time}});
  return absl::IsResourceExhausted(written) ? absl::OkStatus() : written;
}

}  // namespace

absl::Status ReadEvaluations(MetaStore& meta, const std::string& job, JobProgress& progress) {
  LH_ASSIGN_OR_RETURN(const std::vector<EvaluationRecord> evaluations, meta.ListEvaluations(job));
  for (const EvaluationRecord& evaluation : evaluations) progress.AddEvaluation(evaluation);
  LH_ASSIGN_OR_RETURN(const std::vector<EvaluationRecord> of_pools, meta.ListPoolEvaluations(job));
  for (const EvaluationRecord& evaluation : of_pools) progress.AddEvaluation(evaluation);
  LH_ASSIGN_OR_RETURN(const std::vector<EvaluationRecord> of_sites, meta.ListSiteEvaluations(job));
  for (const EvaluationRecord& evaluation : of_sites) progress.AddEvaluation(evaluation);
  return absl::OkStatus();
}

absl::StatusOr<RecoveredState> RecoverState(MetaStore& meta, const Logger& log) {
  RecoveredState state;
  LH_ASSIGN_OR_RETURN(state.core.removing, meta.ListUnremoved());
  LH_RETURN_IF_ERROR(RecoverEnded(meta, state));
  LH_ASSIGN_OR_RETURN(const std::vector<JobRecord> records, meta.ListUnended());
  for (const JobRecord& record : records) {
    RecoveredJob recovered{.job = record.id, .owner = record.owner, .state = record.state};
    absl::StatusOr<std::shared_ptr<LiveJob>> job = RecoverJob(meta, record, &recovered);
    if (!job.ok()) {
      recovered.options = {.name = record.name};
      SetBeginning(SpecOf(record).init(), recovered.options);
      recovered.places.clear();
      recovered.unusable =
          FaultOf(job.status(), "its records cannot be used",
                  "use a coordinator version that accepts the spec, or cancel the job");
      log.With({.job = record.name, .job_id = record.id})
          .Error(absl::StrCat("is quarantined: ", recovered.unusable->message));
      job = std::make_shared<LiveJob>(record);
      (*job)->quarantine = recovered.unusable;
    } else {
      log.With({.job = record.name, .job_id = record.id})
          .Info(absl::StrCat("recovered in state ", JobStateName(recovered.state), ", ",
                             recovered.places.size(), " places"));
    }
    LH_ASSIGN_OR_RETURN(const std::vector<std::string> events, meta.ListEvents(record.id));
    (*job)->events.Restore(events);
    state.jobs.push_back(*std::move(job));
    state.core.jobs.push_back(std::move(recovered));
  }
  return state;
}

}  // namespace longhaul::coordinator
