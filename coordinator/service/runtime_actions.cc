// The actions of the core, performed in their order.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/runtime.h"
#include "coordinator/store/fatal.h"

namespace longhaul::coordinator {

void Runtime::Perform(std::vector<Action> actions, size_t next, Answering answer) {
  while (next < actions.size() && !halted_) {
    Action& action = actions[next++];
    if (const auto* checkpoint = std::get_if<WriteCheckpoint>(&action);
        checkpoint != nullptr && checkpoint->final) {
      // It takes as long as the disk needs. What follows (the end of the job) waits for it; other
      // jobs do not.
      const WriteCheckpoint final_one = *checkpoint;
      CheckpointThen(final_one, [this, next, rest = std::move(actions)]() mutable {
        Perform(std::move(rest), next,
                [](const Answer&) { LH_CHECK(false, "an answer after a checkpoint"); });
      });
      return;
    }
    std::visit(
        [&](auto& a) {
          if constexpr (std::is_constructible_v<Answer, decltype(a)>) {
            answer(Answer(std::move(a)));
          } else {
            On(a);
          }
        },
        action);
  }
}

void Runtime::Require(const absl::Status& status, absl::string_view what) {
  if (!status.ok())
    Note(MarkFatal(absl::Status(status.code(), absl::StrCat(what, ": ", status.message()))));
}

void Runtime::CountState(int before, int after) {
  --jobs_by_state_[before];
  ++jobs_by_state_[after];
}

void Runtime::On(const PersistJobState& action) {
  const std::shared_ptr<LiveJob> job = jobs_.Find(action.job);
  JobRecord& record = job->record;
  CountState(record.state, ToProto(action.state));
  record.state = ToProto(action.state);
  if (action.state == JobState::kSeeding) record.started = now();
  if (IsEnded(action.state)) record.ended = now();
  v1::Job report;
  {
    absl::MutexLock lock(&core_mutex_);
    report = ReportLive(*job, *core_.job(action.job), core_now_);
  }
  record.status = StatusOf(std::move(report));
  Require(parts_.meta->UpdateJob(record), "storing the state of a job");
  parts_.log->With({.job = job->name()})
      .Info(absl::StrCat("is ", std::string(JobStateName(action.state))));
  watchers_.Changed(action.job, now());
  if (action.state == JobState::kSeeding) OpenStore(*job);
}

void Runtime::PutParticipant(LiveJob& job, ParticipantRecord participant) {
  Require(parts_.meta->PutParticipant(participant), "storing a pool's place");
  job.SetPlace(participant);
  const int ordinal = participant.ordinal;
  job.participants[ordinal] = std::move(participant);
  watchers_.Changed(job.id(), now());
}

void Runtime::On(const PersistParticipant& action) {
  const std::shared_ptr<LiveJob> job = jobs_.Find(action.job);
  PutParticipant(*job, {.job_id = action.job,
                        .pool = action.pool,
                        .incarnation = action.incarnation,
                        .ordinal = action.ordinal,
                        .start_step = action.start_step});
  parts_.log->With({.job = job->name(), .pool = action.pool})
      .Info(action.start_step.has_value() ? absl::StrCat("is ready, place ", action.ordinal,
                                                         ", from step ", *action.start_step)
                                          : absl::StrCat("is assigned, place ", action.ordinal));
}

void Runtime::On(const PersistParticipantLeft& action) {
  const std::shared_ptr<LiveJob> job = jobs_.Find(action.job);
  ParticipantRecord participant = job->participants[action.ordinal];
  participant.left = true;
  PutParticipant(*job, std::move(participant));
  plan_streams_.EndPool(
      action.job, action.pool, action.incarnation,
      absl::AbortedError(absl::StrCat("pool ", action.pool, " gave up its place in the job")));
  parts_.log->With({.job = job->name(), .pool = action.pool})
      .Warning(absl::StrCat("gave up place ", action.ordinal));
}

void Runtime::On(const RequestSeed& action) {
  v1::PlanEvent event;
  event.mutable_seed();
  plan_streams_.SendToPool(action.job, action.pool, event);
  parts_.log->With({.job = jobs_.Find(action.job)->name(), .pool = action.pool})
      .Info("is asked for the initial parameters");
}

void Runtime::On(const ApplyRound& action) {
  std::shared_ptr<LiveJob> job = jobs_.Find(action.job);
  RoundInput round{.fragment = action.fragment,
                   .version = action.version,
                   .kind = action.kind,
                   .evaluator = action.evaluator};
  for (const Contributor& contributor : action.contributors) {
    std::vector<ShardRef> shards = job->contributions().Shards(
        {action.fragment, action.version, contributor.pool, contributor.incarnation});
    LH_CHECK(!shards.empty(), "the core knows whole contributions only");
    round.contributions.push_back({.pool = contributor.pool, .shards = std::move(shards)});
  }
  Apply(std::move(job), std::move(round));
}

void Runtime::On(const PublishCommit& action) {
  const std::shared_ptr<LiveJob> job = jobs_.Find(action.job);
  const CommitRecord& commit = *job->progress.commit(action.fragment);
  v1::PlanEvent event;
  *event.mutable_commit() = ToProto(commit, action.job);
  plan_streams_.SendToJob(action.job, event);
  watchers_.Changed(action.job, now());
  if (now() - job->counters_saved >= absl::Seconds(1)) SaveCounters(*job);
  const MetricLabels labels = {{"job", job->name()}, {"fragment", absl::StrCat(action.fragment)}};
  parts_.metrics->rounds.With({{"job", job->name()}, {"kind", RoundKindName(action.kind)}})
      .Increment();
  parts_.metrics->outer_gradient_norm.With(labels).Set(commit.outer_gradient_norm);
  parts_.metrics->downlink_nmse.With(labels).Set(commit.downlink_nmse);
  parts_.log->With({.job = job->name(), .round = action.version})
      .Debug(absl::StrCat("fragment ", action.fragment, " ", RoundKindName(action.kind), " from ",
                          action.pools.size(), " pools, digest ", commit.digest.Hex()));
}

void Runtime::On(const WriteCheckpoint& action) { CheckpointThen(action, nullptr); }

void Runtime::On(const EndJob& action) {
  const std::shared_ptr<LiveJob> job = jobs_.Find(action.job);
  v1::PlanEvent event;
  std::string reason(JobStateName(action.state));
  if (action.fault.has_value()) absl::StrAppend(&reason, ": ", action.fault->message);
  event.mutable_ended()->set_reason(reason);
  plan_streams_.SendToJob(action.job, event);
  plan_streams_.EndJob(action.job, absl::OkStatus());
  SaveCounters(*job);
  job->forget_at = now() + options_.linger;
  if (!action.fault.has_value()) return;
  const Logger log = parts_.log->With({.job = job->name(), .pool = action.fault->pool});
  if (action.state == JobState::kFailed) {
    log.Error(action.fault->message);
  } else {
    log.Info(reason);
  }
}

void Runtime::On(const ReleasePool& action) {
  parts_.log->With({.pool = action.pool}).Info("is released");  // Its next heartbeat tells it.
}

}  // namespace longhaul::coordinator
