#include "coordinator/service/job_report.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/plan/job/forecast_check.h"
#include "common/rpc/status_details.h"
#include "common/wire/proto_values.h"
#include "coordinator/effects/refusal.h"
#include "coordinator/service/message_size.h"
#include "coordinator/service/messages.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace longhaul::coordinator {
namespace {

// bf16 gradients, up and down.
constexpr int64_t kDataParallelBytes = 2 * 2;
// Limits of the lists of a report. The rest of it, with a spec of at most 1 MiB, is below 2 MiB.
constexpr size_t kPoolsBytesMax = 1 << 20, kSetAsideBytesMax = 256 << 10;
// How many rows of a list are read at a time: a commit waits for no more.
constexpr int kRowsAtOnce = 8;
constexpr int64_t kDataWarningsShown = 50;

void SetRecord(const JobRecord& record, v1::Job* report) {
  report->set_id(record.id);
  report->set_owner(record.owner);
  report->set_state(static_cast<v1::JobState>(record.state));
  *report->mutable_created_at() = ToProto(record.created);
  if (record.started != absl::InfinitePast())
    *report->mutable_started_at() = ToProto(record.started);
  if (record.ended != absl::InfinitePast()) *report->mutable_ended_at() = ToProto(record.ended);
}

void SetPause(const LiveJob& job, v1::Job* report) {
  if (report->state() != v1::PAUSING && report->state() != v1::PAUSED) return;
  *report->mutable_pause()->mutable_at() = ToProto(job.pause.at);
  report->mutable_pause()->set_by(job.pause.by);
  report->mutable_pause()->set_reason(job.pause.reason);
}

void SetView(const LiveJob& job, const JobView& view, absl::Time now, v1::Job* report) {
  if (view.fault.has_value()) *report->mutable_error() = ToProto(*view.fault);
  for (const SetAsideView& set_aside : view.set_aside)
    *report->add_set_aside() = ToProto(set_aside, now);
  const std::string full = job.fragments->full();
  if (!full.empty()) {
    report->set_waiting_for(absl::StrCat("the coordinator's disk: ", full));
  } else if (view.waiting.has_value()) {
    // Every round waits for its last pool a little: only long waits are reported.
    const bool lasts = now - view.waiting->since >= absl::Seconds(1);
    if (lasts || view.state != JobState::kRunning)
      report->set_waiting_for(InWords(*view.waiting, now));
  }
}

}  // namespace

absl::StatusOr<JobRecord> FindJobRecord(MetaStore& meta, const std::string& name_or_id) {
  absl::StatusOr<JobRecord> record = meta.GetJob(name_or_id);
  return absl::IsNotFound(record.status()) ? NoSuchJob(name_or_id) : std::move(record);
}

absl::Status JobEnded(const JobRecord& record, const std::string& hint) {
  ErrorDetail detail{.reason = "JOB_ENDED"};
  if (!hint.empty()) detail.metadata["hint"] = hint;
  return WithErrorInfo(absl::FailedPreconditionError(absl::StrCat(
                           "job ", record.name, " has ended: ", JobStateName(record.state))),
                       detail);
}

JobWatchers::EventSource EventSourceOf(const ControlPlane& control) {
  return [&control](const std::string& job, int64_t sequence) {
    return control.EventsAfter(job, sequence);
  };
}

std::string InWords(const Waiting& waiting, absl::Time now) {
  const auto whole = [](absl::Duration d) -> std::string {
    const absl::Duration seconds = absl::Trunc(d, absl::Seconds(1));
    // absl's text of it has no unit.
    return seconds == absl::ZeroDuration() ? "0s" : absl::FormatDuration(seconds);
  };
  std::string words = waiting.what;
  if (const absl::Duration waited = now - waiting.since; waited >= absl::Seconds(1))
    absl::StrAppend(&words, ", for ", whole(waited));
  if (waiting.until != absl::InfiniteFuture()) {
    absl::StrAppend(&words, ", at most ",
                    whole(std::max(waiting.until - now, absl::ZeroDuration())), " more");
  }
  return words;
}

namespace {

void SetFragments(const LiveJob& job, v1::Job* report) {
  for (int f = 0; f < job.fragment_count(); ++f) {
    v1::FragmentStatus* fragment = report->mutable_fragments(f);
    const int64_t elements = job.fragments->elements(f);
    fragment->set_payload_bytes_up(job.fragments->up().FragmentBytes(elements));
    fragment->set_payload_bytes_down(job.fragments->down().FragmentBytes(elements));
    if (const std::optional<CommitRecord>& commit = job.progress.commit(f)) {
      fragment->set_rounds_committed(commit->round.version);
      fragment->set_digest(commit->digest.Hex());
    }
  }
}

// The step at which the newest committed round was pushed.
int64_t StepOfRounds(const std::vector<FragmentSchedule>& schedule, const v1::Job& report) {
  int64_t step = 0;
  for (int f = 0; f < report.fragments_size(); ++f) {
    const int64_t round = std::min(report.fragments(f).rounds_committed(), schedule[f].rounds);
    if (round > 0) step = std::max(step, schedule[f].PushStep(round));
  }
  return step;
}

std::string WarningOfData(const std::string& pool, const v1::PoolProgress& progress) {
  return absl::StrCat("data: pool ", pool, " restarted with other data: ", progress.data_change());
}

void SetPools(const LiveJob& job, const std::optional<JobView>& view, v1::Job* report) {
  std::map<std::string, ParticipantView> places;
  if (view.has_value()) {
    for (const ParticipantView& place : view->participants) places[place.pool] = place;
  }
  int64_t tokens = 0, contributed = 0, steps = 0, data_warnings = 0;
  std::optional<int64_t> slowest_live, slowest;
  for (const auto& [name, history] : job.progress.pools()) {
    // Its ranks are ready, and have not reported yet.
    if (history.incarnation.empty()) continue;
    v1::PoolProgress* pool = report->add_pools();
    *pool = history.Total();
    const ParticipantView& place = places[name];
    pool->set_live(place.live);
    pool->set_late_rounds(place.late_rounds);
    pool->set_late_rounds_in_a_row(place.late_in_a_row);
    pool->set_left_out_fragments(job.progress.LeftOutFragments(name));
    if (const EvaluationRecord* evaluation = job.progress.PoolEvaluation(name)) {
      pool->set_evaluation_step(evaluation->step);
      *pool->mutable_evaluation() = ToProto(evaluation->metrics);
    }
    if (const EvaluationRecord* evaluation = job.progress.SiteEvaluation(name)) {
      pool->set_outer_evaluation_step(evaluation->step);
      *pool->mutable_outer_evaluation() = ToProto(evaluation->metrics);
    }
    if (!pool->data_change().empty()) report->add_warnings(WarningOfData(name, *pool));
    for (const v1::DataWarning& warning : pool->data().warnings()) {
      if (++data_warnings <= kDataWarningsShown)
        report->add_warnings(absl::StrCat("data: pool ", name, ": ", warning.message()));
    }
    // There may be thousands of pools.
    if (pool->has_data()) pool->mutable_data()->clear_warnings();
    tokens += pool->tokens();
    contributed += pool->contributed_tokens();
    steps += history.steps();
    slowest = std::min(slowest.value_or(pool->inner_step()), pool->inner_step());
    if (pool->live())
      slowest_live = std::min(slowest_live.value_or(pool->inner_step()), pool->inner_step());
  }
  if (data_warnings > kDataWarningsShown) {
    report->add_warnings(absl::StrCat("data: ", data_warnings - kDataWarningsShown,
                                      " more warnings of pools, in the job's events"));
  }
  // In a quorum rounds go on without a pool that is late.
  report->set_inner_step(std::max(slowest_live.value_or(slowest.value_or(0)),
                                  StepOfRounds(job.resolved->schedule, *report)));
  // Every version of the job was made, whatever the last heartbeats said.
  if (report->state() == v1::COMPLETED) report->set_inner_step(job.resolved->spec.train().steps());
  report->set_tokens(tokens);
  report->set_contributed_tokens(contributed);
  report->set_data_parallel_bytes(CheckedMul(kDataParallelBytes * report->parameters(), steps)
                                      .value_or(std::numeric_limits<int64_t>::max()));
}

void SetMeans(v1::Job* report) {
  double wait = 0, compute = 0, utilization = 0;
  int timed = 0;
  for (const v1::PoolProgress& pool : report->pools()) {
    wait += pool.exposed_wait_seconds();
    compute += pool.compute_seconds();
    const std::optional<double> share = UtilizationOf(pool);
    if (!share.has_value()) continue;
    utilization += *share;
    ++timed;
  }
  if (report->pools_size() > 0) {
    report->set_exposed_wait_seconds(wait / report->pools_size());
    report->set_compute_seconds(compute / report->pools_size());
  }
  if (timed > 0) report->set_utilization(utilization / timed);
}

v1::Job WithKeptUntil(const ControlPlane& control, const JobRecord& record, v1::Job report) {
  const absl::Time until = control.KeptUntil(record);
  if (until != absl::InfiniteFuture()) *report.mutable_kept_until() = ToProto(until);
  return report;
}

v1::Job ReportKept(const ControlPlane& control, const JobRecord& record) {
  return WithKeptUntil(control, record, ReportEnded(record));
}

// Sets `report.spec` to the shortened spec.
void SetShortened(const v1::JobSpec& spec, v1::Job* report) {
  v1::JobSpec shortened = Shortened(spec);
  if (shortened.ByteSizeLong() < spec.ByteSizeLong()) report->set_spec_shortened(true);
  *report->mutable_spec() = std::move(shortened);
}

// Of a job that has ended. `record` has no spec; an earlier version of the program kept none with
// the report, so that it is read.
v1::Job ListedEnded(MetaStore& meta, const JobRecord& record) {
  v1::Job report;
  report.ParseFromString(record.status);
  if (!report.has_spec()) {
    const absl::StatusOr<JobRecord> whole = meta.GetJob(record.id);
    v1::JobSpec spec;
    if (whole.ok()) spec.ParseFromString(whole->spec);
    SetShortened(spec, &report);
  }
  SetRecord(record, &report);
  return report;
}

// With the spec, or a shortened one.
v1::Job ReportResolved(const LiveJob& job, const JobRecord& record,
                       const std::optional<JobView>& view, absl::Time now, bool whole) {
  v1::Job report = ReportWithoutSpec(*job.resolved);
  const v1::JobSpec& spec = job.resolved->spec;
  if (whole) {
    *report.mutable_spec() = spec;
  } else {
    SetShortened(spec, &report);
  }
  const auto state = static_cast<v1::JobState>(job.StateWith(record));
  SetRecord(record, &report);
  report.set_state(state);
  SetPause(job, &report);
  if (view.has_value()) SetView(job, *view, now, &report);
  // After a restart the commits are not known before the store is open: no counts are better than
  // counts of zero. The store of a paused job stays closed.
  if (v1::Job paused; record.state != JobState::kPending && !job.progress.HasCommits()) {
    report.clear_fragments();
    if (state == v1::PAUSED && paused.ParseFromString(job.pause.report))
      *report.mutable_fragments() = std::move(*paused.mutable_fragments());
  } else {
    SetFragments(job, &report);
  }
  SetPools(job, view, &report);
  SetMeans(&report);
  if (v1::EvalLoss loss = job.progress.EvaluationLoss(); loss.evaluations() > 0) {
    *report.mutable_eval_loss() = std::move(loss);
  }
  *report.mutable_wire_bytes() = job.wire_bytes();
  if (v1::JobHealth health = job.health.Report();
      health.level() != v1::JobHealth::LEVEL_UNSPECIFIED)
    *report.mutable_health() = std::move(health);
  if (job.progress.forecast().has_value()) {
    *report.mutable_forecast() = *job.progress.forecast();
    plan::AddMeasured(*job.resolved, report.pools(), *report.mutable_forecast());
  }
  return report;
}

}  // namespace

v1::Job ReportLive(const LiveJob& job, const std::optional<JobView>& view, absl::Time now) {
  if (!job.resolved.has_value()) {
    v1::Job report = ReportEnded(job.record);
    report.set_state(static_cast<v1::JobState>(job.state()));
    if (job.quarantine.has_value()) *report.mutable_error() = ToProto(*job.quarantine);
    return report;
  }
  return ReportResolved(job, job.record, view, now, /*whole=*/true);
}

v1::Job ReportShortened(const LiveJob& job, const JobRecord& record,
                        const std::optional<JobView>& view, absl::Time now) {
  if (job.resolved.has_value()) return ReportResolved(job, record, view, now, /*whole=*/false);
  v1::Job report = ReportEnded(record);
  report.set_state(static_cast<v1::JobState>(job.StateWith(record)));
  if (job.quarantine.has_value()) *report.mutable_error() = ToProto(*job.quarantine);
  const v1::JobSpec spec = std::move(*report.mutable_spec());
  SetShortened(spec, &report);
  return report;
}

v1::Job Report(const ControlPlane& control, const std::string& id) {
  const std::shared_ptr<LiveJob> job = control.Find(id);
  // The core knows nothing of an ended job. Its record has the reason.
  if (!job || job->record.ended != absl::InfinitePast()) {
    const absl::StatusOr<JobRecord> record = control.meta().GetJob(id);
    if (record.ok()) return ReportKept(control, *record);
  }
  if (!job) return {};
  return ReportLive(*job, control.View(id), control.now());
}

v1::Job Report(const ControlPlane& control, const JobRecord& record) {
  const std::shared_ptr<LiveJob> job = control.Find(record.id);
  if (!job || record.ended != absl::InfinitePast()) return ReportKept(control, record);
  return ReportLive(*job, control.View(record.id), control.now());
}

v1::Job ReportEnded(const JobRecord& record) {
  v1::Job report;
  report.ParseFromString(record.status);  // Ours; what does not parse is left out.
  report.clear_spec_shortened();
  report.mutable_spec()->ParseFromString(record.spec);
  SetRecord(record, &report);
  return report;
}

v1::JobSpec Shortened(const v1::JobSpec& spec) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *spec.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(spec, &fields);
  v1::JobSpec kept;
  kept.set_name(spec.name());
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const google::protobuf::Message& part = reflection.GetMessage(spec, field);
    if (part.ByteSizeLong() <= kSpecPartBytesMax)
      reflection.MutableMessage(&kept, field)->CopyFrom(part);
  }
  return kept;
}

absl::StatusOr<std::vector<ListedJob>> ReadListed(MetaStore& meta, int64_t before, int limit) {
  std::vector<ListedJob> listed;
  while (static_cast<int>(listed.size()) < limit) {
    const int wanted = std::min(limit - static_cast<int>(listed.size()), kRowsAtOnce);
    LH_ASSIGN_OR_RETURN(std::vector<JobRecord> records, meta.ListJobs(before, wanted));
    for (JobRecord& record : records) {
      before = record.order;
      ListedJob& row = listed.emplace_back();
      if (record.ended != absl::InfinitePast()) row.report = ListedEnded(meta, record);
      record.status.clear();
      row.record = std::move(record);
    }
    if (static_cast<int>(records.size()) < wanted) break;
  }
  return listed;
}

v1::Job ReportListed(const ControlPlane& control, ListedJob listed) {
  const std::shared_ptr<LiveJob> job = control.Find(listed.record.id);
  const bool ended = listed.record.ended != absl::InfinitePast();
  if (ended) return WithKeptUntil(control, listed.record, std::move(listed.report));
  if (!job) {
    // It ended and was deleted since it was read.
    listed.report.mutable_spec()->set_name(listed.record.name);
    SetRecord(listed.record, &listed.report);
    return std::move(listed.report);
  }
  return ReportShortened(*job, job->record, control.View(job->id()), control.now());
}

v1::Job Bounded(v1::Job report) {
  auto& pools = *report.mutable_pools();
  if (BytesOf(pools) > kPoolsBytesMax) {
    std::stable_partition(pools.pointer_begin(), pools.pointer_end(),
                          [](const v1::PoolProgress* pool) { return pool->live(); });
  }
  report.set_pools_left_out(KeepWithin(kPoolsBytesMax, &pools));
  report.set_set_aside_left_out(KeepWithin(kSetAsideBytesMax, report.mutable_set_aside()));
  return report;
}

std::string KeptStatus(v1::Job report) {
  const v1::JobSpec spec = std::move(*report.mutable_spec());
  SetShortened(spec, &report);
  report.clear_waiting_for();
  report.clear_set_aside();
  report.clear_pause();
  for (v1::PoolProgress& pool : *report.mutable_pools()) pool.set_live(false);
  return report.SerializeAsString();
}

}  // namespace longhaul::coordinator
