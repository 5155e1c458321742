#include "tests/simulation/coordinator_node.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "coordinator/sync/round_plan.h"
#include "tests/scenarios/core_text.h"

namespace longhaul::simulation {

void CoordinatorNode::Start() {
  world_->checker.Restarted(store_);
  if (world_->mutation == Mutation::kReseed) {
    for (auto& [id, job] : store_.jobs) {
      if (!IsEnded(job.state)) job.state = JobState::kPending;
      job.fragments.assign(job.fragments.size(), {});
    }
  }
  for (auto& [id, job] : store_.jobs) {
    for (const auto& [key, words] : job.log) {
      Arriving& arriving = arriving_[{id, key}];
      arriving.words = words;
      for (int i = 0; i < kWords; ++i) arriving.words_here.insert(i);
    }
  }
  core_.emplace(coordinator::CoordinatorOptions{.lease = world_->lease}, store_.Recover(),
                world_->loop.now());
  world_->Trace("coordinator", "starts");
  Tick();
}

void CoordinatorNode::Crash() {
  if (!up()) return;
  world_->Trace("coordinator", "crashes");
  ++life_;
  core_.reset();
  streams_.clear();
  arriving_.clear();
  world_->network.BreakAll(kCoordinatorNode);
  if (world_->mutation == Mutation::kLostCommit) {
    for (auto& [id, job] : store_.jobs) {
      for (StoredFragment& fragment : job.fragments)
        fragment.version = std::max<int64_t>(-1, fragment.version - 1);
    }
  }
  world_->loop.After(world_->Between(absl::Milliseconds(100), absl::Seconds(4)),
                     [this] { Start(); });
}

bool CoordinatorNode::Submit(const std::string& job, const JobOptions& options) {
  if (store_.jobs.contains(job)) return true;
  submitting_ = options;
  if (!Perform(coordinator::SubmitJob{job, options})) return false;
  world_->checker.Acknowledged(job);
  return true;
}

void CoordinatorNode::Cancel(const std::string& job) {
  Perform(coordinator::CancelJob{job, "by the user"});
}

void CoordinatorNode::Join(const std::string& pool, const std::string& incarnation, int ranks,
                           const Answer& answer) {
  Perform(coordinator::JoinPool{pool, incarnation, ranks}, answer);
}

void CoordinatorNode::Heartbeat(const coordinator::Heartbeat& heartbeat, const Answer& answer) {
  Perform(heartbeat, answer);
}

void CoordinatorNode::Leave(const std::string& pool, const std::string& incarnation) {
  Perform(coordinator::LeavePool{pool, incarnation});
}

void CoordinatorNode::Evaluated(const coordinator::EvaluationReported& evaluation) {
  if (evaluation.final) store_.jobs.at(evaluation.job).final_evaluation = true;
  Perform(evaluation);
}

void CoordinatorNode::Watch(const RankId& who, Stream stream) {
  opening_ = std::move(stream);
  Perform(coordinator::RankReady{who.job, who.pool, who.incarnation, who.rank},
          [this](const coordinator::Action& action) {
            if (const auto* refuse = std::get_if<coordinator::Refuse>(&action)) {
              opening_(session::PlanRefused{refuse->status, refuse->reason});
            }
          });
}

void CoordinatorNode::Push(const PushRequest& push,
                           const std::function<void(const Refusal&)>& answer) {
  const RankId& from = push.from;
  const int64_t life = life_;
  Refusal refused;
  const Answer keep = [&](const coordinator::Action& action) {
    refused = std::get<coordinator::Refuse>(action);
  };
  Perform(coordinator::ContributionBegins{from.job, from.pool, from.incarnation, push.fragment,
                                          push.version, push.kind},
          keep);
  if (life != life_) return;
  if (refused.has_value()) return answer(refused);

  const ContributionKey key{push.fragment, push.version, from.pool, from.incarnation};
  Arriving& arriving = arriving_[{from.job, key}];
  for (int i = 0; i < kWords; ++i) {
    if (!from.Owns(i)) continue;
    const bool again = !arriving.words_here.insert(i).second;
    if (again && arriving.words[i] != push.words[i])
      world_->checker.Violation("2: a push was repeated with other bytes");
    arriving.words[i] = push.words[i];
  }
  if (arriving.words_here.size() == kWords) {
    // The log is synced at some time later; until then a crash loses the contribution, whole.
    Later(world_->Chance(0.5) ? absl::ZeroDuration()
                              : world_->Between(absl::ZeroDuration(), absl::Seconds(1)),
          [this, job = from.job, key, words = arriving.words] {
            store_.jobs.at(job).log[key] = words;
          });
    Perform(coordinator::ContributionComplete{from.job, from.pool, from.incarnation, push.fragment,
                                              push.version, push.kind},
            keep);
    if (life != life_) return;
  }
  answer(refused);
}

PullAnswer CoordinatorNode::Pull(const PullRequest& pull) const {
  const StoredFragment& fragment = store_.jobs.at(pull.from.job).fragments.at(pull.fragment);
  if (pull.whole) return {fragment.version, fragment.outer.parameters, std::nullopt};
  if (pull.version == fragment.version)
    return {fragment.version, fragment.outer.downlink, std::nullopt};
  return {fragment.version,
          {},
          coordinator::Refuse{absl::FailedPreconditionError("not the newest"), "VERSION_MISMATCH"}};
}

bool CoordinatorNode::Perform(const coordinator::Event& event, const Answer& answer) {
  const int64_t life = life_;
  for (const coordinator::Action& action : core_->Step(event, world_->loop.now())) {
    if (world_->trace) world_->Trace("coordinator", ToText(action));
    std::visit([this](const auto& a) { Do(a); }, action);
    const bool answers = std::holds_alternative<coordinator::Refuse>(action) ||
                         std::holds_alternative<coordinator::GrantLease>(action);
    if (answers && answer) answer(action);
    if (life == life_ && world_->faults && world_->Chance(world_->coordinator_crash_chance))
      Crash();
    if (life != life_) return false;
  }
  return true;
}

void CoordinatorNode::Do(const coordinator::GrantLease& grant) {
  if (!grant.assignment.has_value()) return;
  world_->checker.Placed(grant.assignment->job, grant.assignment->ordinal, grant.pool,
                         grant.incarnation);
}

void CoordinatorNode::Do(const coordinator::PersistJobState& action) {
  if (!store_.jobs.contains(action.job)) store_.AddJob(action.job, submitting_);
  store_.jobs.at(action.job).state = action.state;
}

void CoordinatorNode::Do(const coordinator::PersistParticipant& action) {
  if (world_->mutation != Mutation::kLostPlace) store_.Save(action);
}

void CoordinatorNode::Do(const coordinator::AdmitRank& action) {
  const StoredJob& job = store_.jobs.at(action.job);
  const coordinator::JobView view = *core_->job(action.job);
  session::Plan plan{.steps = job.options.steps,
                     .alpha = 0.5,
                     .final_round = job.options.final_round,
                     .start_step = action.start_step,
                     .ordinal = action.ordinal,
                     .seed = action.seed};
  for (size_t f = 0; f < job.fragments.size(); ++f) {
    const StoredFragment& stored = job.fragments[f];
    const auto& here = view.fragments[f].contributors;
    // Between the durable commit and RoundApplied the contributors are those of the version that is
    // committed already.
    const bool contributed = view.fragments[f].version == stored.version &&
                             std::find(here.begin(), here.end(), action.ordinal) != here.end();
    session::Commit newest{stored.version, stored.kind, stored.evaluator == action.pool, false};
    for (const auto& c : stored.contributors) newest.contributed |= c.pool == action.pool;
    plan.fragments.push_back({job.options.schedule[f], newest, contributed});
  }
  world_->checker.Placed(action.job, action.ordinal, action.pool, action.incarnation);
  opening_(session::PlanReceived{std::move(plan)});
  streams_[{action.job, action.pool, action.rank}] = opening_;
}

void CoordinatorNode::Do(const coordinator::RequestSeed& action) {
  for (const auto& [key, stream] : streams_) {
    if (std::get<0>(key) == action.job && std::get<1>(key) == action.pool)
      stream(session::SeedRequested{});
  }
}

void CoordinatorNode::Do(const coordinator::ApplyRound& action) {
  const JobOptions& options = store_.jobs.at(action.job).options;
  const RoundPlan plan(options.schedule, options.steps, options.final_round);
  world_->checker.Applies(*core_->job(action.job), action,
                          plan.PushStep(action.fragment, action.version));
  if (world_->mutation == Mutation::kPublishEarly) {
    Later(absl::ZeroDuration(), [this, action] {
      Perform(coordinator::RoundApplied{action.job, action.fragment, action.version});
    });
    return;
  }
  Later(world_->Between(absl::Milliseconds(1), absl::Milliseconds(80)),
        [this, action] { FinishApply(action); });
}

void CoordinatorNode::FinishApply(const coordinator::ApplyRound& action) {
  StoredJob& job = store_.jobs.at(action.job);
  StoredFragment& fragment = job.fragments[action.fragment];
  std::vector<Words> contributions;
  for (const coordinator::Contributor& c : action.contributors) {
    const ContributionKey key{action.fragment, action.version, c.pool, c.incarnation};
    const auto arrived = arriving_.find({action.job, key});
    LH_CHECK(arrived != arriving_.end(), "the core counts what never arrived");
    contributions.push_back(arrived->second.words);
  }
  if (world_->mutation == Mutation::kApplyTwice && action.kind != RoundKind::kSkipped)
    contributions.push_back(contributions[0]);
  ApplyContributions(action.kind, contributions, fragment.outer);
  fragment.version = action.version;
  fragment.kind = action.kind;
  fragment.evaluator = action.evaluator;
  fragment.contributors = action.contributors;
  std::erase_if(job.log, [&](const auto& entry) {
    return entry.first.fragment == action.fragment && entry.first.version <= action.version;
  });
  world_->checker.Committed(action.job, action.fragment, fragment);
  std::erase_if(arriving_, [&](const auto& entry) {
    const ContributionKey& key = entry.first.second;
    return entry.first.first == action.job && key.fragment == action.fragment &&
           key.version <= action.version;
  });
  if (world_->faults && world_->Chance(world_->coordinator_crash_chance)) return Crash();
  Perform(coordinator::RoundApplied{action.job, action.fragment, action.version});
}

void CoordinatorNode::Do(const coordinator::PublishCommit& action) {
  world_->checker.Published(action.job, action.fragment, action.version);
  for (const auto& [key, stream] : streams_) {
    const auto& [job, pool, rank] = key;
    if (job != action.job) continue;
    const bool contributed =
        std::find(action.pools.begin(), action.pools.end(), pool) != action.pools.end();
    stream(session::CommitPublished{
        action.fragment, {action.version, action.kind, action.evaluator == pool, contributed}});
  }
}

void CoordinatorNode::Do(const coordinator::EndJob& action) {
  world_->checker.Ended(action.job, action.state);
  for (const auto& [key, stream] : streams_) {
    if (std::get<0>(key) == action.job)
      stream(session::Ended{std::string(JobStateName(action.state))});
  }
  std::erase_if(streams_,
                [&](const auto& entry) { return std::get<0>(entry.first) == action.job; });
}

void CoordinatorNode::Tick() {
  if (!Perform(coordinator::Tick{})) return;
  Later(absl::Milliseconds(500), [this] { Tick(); });
}

void CoordinatorNode::Later(absl::Duration delay, std::function<void()> run) {
  world_->loop.After(delay, [this, life = life_, run = std::move(run)] {
    if (life == life_) run();
  });
}

}  // namespace longhaul::simulation
