#include "tests/scenarios/coordinator_commands.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "tests/scenarios/core_text.h"

namespace longhaul {
namespace {

using Lines = std::vector<std::string>;

constexpr int64_t kGb = 1'000'000'000;

RoundId RoundOf(const Command& c) {
  const int64_t version = c.Number("version");
  return {static_cast<int>(c.Number("fragment")), version, KindOf(c, version)};
}

DivergenceAction GuardOf(const Command& c) {
  const std::string guard = c.Text("guard");
  LH_CHECK(guard.empty() || guard == "pause" || guard == "fail", "no such guard");
  if (guard.empty()) return DivergenceAction::kNone;
  return guard == "pause" ? DivergenceAction::kPause : DivergenceAction::kFail;
}

double LossOf(const Command& c) {
  double loss = 0;
  LH_CHECK(absl::SimpleAtod(c.Text("loss", "1.5"), &loss), "no such loss");
  return loss;
}

// The lines of one event for each pool that the command names, from word `first` on.
template <typename MakeEvent, typename Step>
Lines ForEachPool(const Command& c, size_t first, MakeEvent make, Step step) {
  Lines lines;
  for (size_t i = first; i < c.words().size(); ++i) {
    for (std::string& line : step(make(c.word(i)))) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

Lines CoordinatorScenario::Run(const Command& command) {
  static const auto* const kHandlers = new std::map<std::string, Handler>{
      {"at", &CoordinatorScenario::At},
      {"submit", &CoordinatorScenario::Submit},
      {"cancel", &CoordinatorScenario::Cancel},
      {"pause", &CoordinatorScenario::Pause},
      {"resume", &CoordinatorScenario::Resume},
      {"ask", &CoordinatorScenario::Ask},
      {"delete", &CoordinatorScenario::Delete},
      {"removed", &CoordinatorScenario::Removed},
      {"expire", &CoordinatorScenario::Expire},
      {"closed", &CoordinatorScenario::Closed},
      {"log-removed", &CoordinatorScenario::LogRemoved},
      {"join", &CoordinatorScenario::Join},
      {"heartbeat", &CoordinatorScenario::Heartbeat},
      {"leave", &CoordinatorScenario::Leave},
      {"ready", &CoordinatorScenario::Ready},
      {"contribute", &CoordinatorScenario::Contribute},
      {"evaluated", &CoordinatorScenario::Evaluated},
      {"failed", &CoordinatorScenario::Failed},
      {"opened", &CoordinatorScenario::Opened},
      {"measured", &CoordinatorScenario::Measured},
      {"applied", &CoordinatorScenario::Applied},
      {"checkpointed", &CoordinatorScenario::Checkpointed},
      {"open-failed", &CoordinatorScenario::OpenFailed},
      {"apply-failed", &CoordinatorScenario::ApplyFailed},
      {"checkpoint-failed", &CoordinatorScenario::CheckpointFailed},
      {"store-failed", &CoordinatorScenario::StoreFailed},
      {"tick", &CoordinatorScenario::Tick},
      {"restart", &CoordinatorScenario::Restart},
      {"show", &CoordinatorScenario::Show},
      {"pools", &CoordinatorScenario::Pools},
  };
  const auto handler = kHandlers->find(command.name());
  if (handler == kHandlers->end()) return {absl::StrCat("unknown command ", command.name())};
  return (this->*handler->second)(command);
}

Lines CoordinatorScenario::At(const Command& c) {
  absl::Duration since_start;
  LH_CHECK(absl::ParseDuration(c.word(0), &since_start), "no such time");
  now_ = absl::UnixEpoch() + since_start;
  return {};
}

Lines CoordinatorScenario::Submit(const Command& c) {
  ScheduleOptions schedule{.fragments = static_cast<int>(c.Number("fragments", 1)),
                           .h = c.Number("h", 4),
                           .tau = c.Number("tau", 1),
                           .steps = c.Number("steps", 8)};
  JobOptions options{.name = c.word(0),
                     .pools_min = static_cast<int>(c.Number("min", 1)),
                     .pools_max = static_cast<int>(c.Number("max", 64)),
                     .pool_names = absl::StrSplit(c.Text("names"), ',', absl::SkipEmpty()),
                     .cuda = c.Has("cuda"),
                     .needs = absl::StrSplit(c.Text("needs"), ',', absl::SkipEmpty()),
                     .schedule = MakeSchedule(schedule),
                     .steps = schedule.steps,
                     .final_round = !c.Has("no-final"),
                     .rounds = {.quorum = static_cast<int>(c.Number("quorum")),
                                .grace = absl::Seconds(c.Number("grace"))},
                     .checkpoint_every_cycles = c.Number("checkpoint"),
                     .evaluation_every_cycles = c.Number("evaluate", 1),
                     .every_pool_evaluates = c.Has("all-evaluate"),
                     .from_checkpoint = c.Has("from") || !c.Text("from").empty(),
                     .from_job = c.Text("from"),
                     .guard = {.on_divergence = GuardOf(c),
                               .after = absl::Seconds(c.Number("after", 20)),
                               .guess = std::log(256)},
                     .outer_guard = {.on = c.Number("leave-out") > 0,
                                     .rounds = static_cast<int>(c.Number("leave-out"))},
                     .memory = c.Number("memory") * kGb};
  submitted_ = {.job = c.word(0), .options = options, .owner = c.Text("owner")};
  fragments_[c.word(0)].resize(schedule.fragments);
  return Step(coordinator::SubmitJob{c.word(0), options, c.Text("owner")});
}

Lines CoordinatorScenario::Cancel(const Command& c) {
  return Step(coordinator::CancelJob{c.word(0), c.Text("reason")});
}

Lines CoordinatorScenario::Pause(const Command& c) {
  return Step(coordinator::PauseJob{c.word(0), c.Text("by"), c.Text("reason")});
}

Lines CoordinatorScenario::Resume(const Command& c) {
  return Step(coordinator::ResumeJob{c.word(0), c.Text("by")});
}

Lines CoordinatorScenario::Ask(const Command& c) {
  return Step(coordinator::AskCheckpoint{c.word(0)});
}

Lines CoordinatorScenario::Delete(const Command& c) {
  const auto stored = stored_.find(c.word(0));
  return Step(coordinator::DeleteJob{
      c.word(0), stored == stored_.end() ? JobState::kCompleted : stored->second.state});
}

Lines CoordinatorScenario::Removed(const Command& c) {
  if (c.Has("failed")) return Step(coordinator::RemoveFailed{c.word(0)});
  return Step(coordinator::FilesRemoved{c.word(0)});
}

Lines CoordinatorScenario::Expire(const Command& c) {
  coordinator::JobsExpired expired;
  for (const std::string& job : c.words()) expired.jobs.push_back({job, stored_.at(job).state});
  return Step(expired);
}

Lines CoordinatorScenario::Closed(const Command& c) {
  return Step(coordinator::StoreClosed{c.word(0)});
}

Lines CoordinatorScenario::LogRemoved(const Command& c) {
  if (c.Has("failed") || c.Has("damaged"))
    return Step(coordinator::LogRemovalFailed{c.word(0), c.Has("failed")});
  if (c.Has("unusable")) return Step(coordinator::LogNeeded{c.word(0)});
  if (c.Has("needed"))
    return Step(coordinator::LogNeeded{c.word(0), stored_.at(c.word(0)).options});
  return Step(coordinator::LogRemoved{c.word(0)});
}

Lines CoordinatorScenario::Join(const Command& c) {
  const auto make = [&](const std::string& pool) {
    const std::vector<std::string> can = absl::StrSplit(c.Text("can"), ',', absl::SkipEmpty());
    coordinator::JoinPool join{.pool = pool,
                               .incarnation = c.Text("inc", "1"),
                               .ranks = static_cast<int>(c.Number("ranks", 1)),
                               .cuda = c.Number("cuda") != 0,
                               .capabilities = {can.begin(), can.end()},
                               .nodes = static_cast<int>(c.Number("nodes", 1)),
                               .node_given = c.Number("given") != 0,
                               .host = c.Text("host"),
                               .version = c.Text("version"),
                               .running = c.Text("running"),
                               .fresh = c.Text("fresh", "g"),
                               .replaces = c.Text("replaces")};
    if (!c.Text("node").empty()) join.node = static_cast<int>(c.Number("node"));
    return join;
  };
  return ForEachPool(c, 0, make, [this](const coordinator::Event& e) { return Step(e); });
}

Lines CoordinatorScenario::Heartbeat(const Command& c) {
  const auto make = [&](const std::string& pool) {
    return coordinator::Heartbeat{.pool = pool,
                                  .incarnation = c.Text("inc", "1"),
                                  .job = c.Text("job"),
                                  .inner_step = c.Number("step"),
                                  .draining = c.Number("draining") != 0,
                                  .finished = c.Number("finished") != 0,
                                  .merged = c.Number("merged") != 0,
                                  .stopping = c.Number("stopping") != 0,
                                  .stopped = c.Number("stopped") != 0,
                                  .running = c.Text("running")};
  };
  return ForEachPool(c, 0, make, [this](const coordinator::Event& e) { return Step(e); });
}

Lines CoordinatorScenario::Leave(const Command& c) {
  const auto make = [&](const std::string& pool) {
    absl::Duration within = absl::ZeroDuration();
    LH_CHECK(c.Text("return").empty() || absl::ParseDuration(c.Text("return"), &within),
             "no such duration");
    return coordinator::LeavePool{pool, c.Text("inc", "1"), within};
  };
  return ForEachPool(c, 0, make, [this](const coordinator::Event& e) { return Step(e); });
}

Lines CoordinatorScenario::Ready(const Command& c) {
  const auto make = [&](const std::string& pool) {
    return coordinator::RankReady{c.word(0), pool, c.Text("inc", "1"),
                                  static_cast<int>(c.Number("rank"))};
  };
  return ForEachPool(c, 1, make, [this](const coordinator::Event& e) { return Step(e); });
}

Lines CoordinatorScenario::Contribute(const Command& c) {
  const RoundId round = RoundOf(c);
  const auto make = [&](const std::string& pool) {
    auto& stored = fragments_[c.word(0)];
    if (round.fragment < static_cast<int>(stored.size()))
      stored[round.fragment].contributors.push_back({0, pool, c.Text("inc", "1")});
    return coordinator::ContributionComplete{{c.word(0), pool, c.Text("inc", "1"), round}};
  };
  return ForEachPool(c, 1, make, [this](const coordinator::Event& e) { return Step(e); });
}

Lines CoordinatorScenario::Evaluated(const Command& c) {
  coordinator::Heartbeat event{
      .pool = c.word(1), .incarnation = c.Text("inc", "1"), .job = c.word(0)};
  event.evaluations.push_back({.step = c.Number("step", stored_.at(c.word(0)).options.steps),
                               .loss = LossOf(c),
                               .final = c.Has("final"),
                               .of_pool = c.Has("own")});
  event.inner_step = event.evaluations[0].step;
  event.running = c.Text("running");
  return Step(event);
}

Lines CoordinatorScenario::Failed(const Command& c) {
  coordinator::Heartbeat event{
      .pool = c.word(1), .incarnation = c.Text("inc", "1"), .job = c.word(0)};
  event.fault = JobFault{.code = "NOT_FOUND", .field = c.Text("field"), .hint = c.Text("hint")};
  return Step(event);
}

Lines CoordinatorScenario::Opened(const Command& c) {
  return Step(coordinator::StoreOpened{c.word(0), fragments_.at(c.word(0))});
}

namespace {

// Numbers between commas, or nothing.
std::vector<double> NumbersOf(const std::string& text) {
  std::vector<double> numbers;
  for (absl::string_view word : absl::StrSplit(text, ',', absl::SkipEmpty()))
    LH_CHECK(absl::SimpleAtod(word, &numbers.emplace_back()), "no such number");
  return numbers;
}

}  // namespace

Lines CoordinatorScenario::Measured(const Command& c) {
  coordinator::RoundMeasured event{c.word(0), RoundOf(c)};
  const std::vector<double> cosines = NumbersOf(c.Text("cosines")),
                            others = NumbersOf(c.Text("others"));
  for (size_t i = 1; i < c.words().size(); ++i) {
    OuterMeasure& measure = event.contributions.emplace_back();
    measure.norm = NumbersOf(c.word(i)).at(0);
    if (!cosines.empty()) measure.cosine = cosines.at(i - 1);
    if (!others.empty()) measure.others = others.at(i - 1);
  }
  return Step(event);
}

Lines CoordinatorScenario::Applied(const Command& c) {
  const RoundId round = RoundOf(c);
  coordinator::RecoveredFragment& stored = fragments_.at(c.word(0))[round.fragment];
  stored.version = round.version;
  stored.contributors.clear();
  stored.outer = applying_[{c.word(0), round.fragment}];
  return Step(coordinator::RoundApplied{c.word(0), round});
}

Lines CoordinatorScenario::Checkpointed(const Command& c) {
  const bool final = c.Text("cycle").empty() && !c.Has("last");
  return Step(
      coordinator::CheckpointWritten{c.word(0), final, c.Number("cycle"), final || c.Has("last")});
}

namespace {

coordinator::WorkFault FaultOf(const Command& c) {
  const bool full = c.Has("full"), not_finite = c.Has("not-finite");
  return {.retry = full,
          .fault = {.message = full         ? "no space left"
                               : not_finite ? "a value is not finite"
                                            : "input/output error"},
          .fails_job = not_finite};
}

}  // namespace

Lines CoordinatorScenario::OpenFailed(const Command& c) {
  return Step(coordinator::OpenFailed{c.word(0), FaultOf(c)});
}

Lines CoordinatorScenario::ApplyFailed(const Command& c) {
  coordinator::ApplyFailed failed{c.word(0), RoundOf(c), FaultOf(c)};
  if (const std::string pool = c.Text("damaged"); !pool.empty())
    failed.damaged = coordinator::Contributor{.pool = pool, .incarnation = c.Text("inc", "1")};
  return Step(failed);
}

Lines CoordinatorScenario::CheckpointFailed(const Command& c) {
  const bool final = c.Text("cycle").empty() && !c.Has("last");
  return Step(coordinator::CheckpointFailed{c.word(0), final, FaultOf(c), c.Number("cycle"),
                                            final || c.Has("last")});
}

Lines CoordinatorScenario::StoreFailed(const Command& c) {
  return Step(coordinator::StoreFailed{c.word(0), FaultOf(c).fault});
}

Lines CoordinatorScenario::Tick(const Command&) { return Step(coordinator::Tick{}); }

Lines CoordinatorScenario::Restart(const Command& c) {
  coordinator::Recovery recovery{.removing = removing_};
  for (const std::string& id : order_) {
    coordinator::RecoveredJob job = stored_.at(id);
    if (IsEnded(job.state)) {
      if (!cleaned_up_.contains(id)) recovery.ended.push_back({id, job.options.name, job.state});
      continue;
    }
    if (c.Text("unusable") == id) {
      job.unusable = JobFault{.message = "an unknown field"};
      job.options = {.name = job.options.name, .from_job = job.options.from_job};
    }
    recovery.jobs.push_back(std::move(job));
  }
  memory_ = c.Number("memory", memory_ / kGb) * kGb;
  core_ = coordinator::Coordinator({.memory = memory_}, recovery, now_);
  return Step(coordinator::Tick{});
}

Lines CoordinatorScenario::Show(const Command& c) {
  const std::optional<coordinator::JobView> job = core_.job(c.word(0));
  if (!job.has_value()) return {"no such job"};
  Lines lines = {std::string(JobStateName(job->state))};
  for (const coordinator::ParticipantView& p : job->participants) {
    lines.push_back(absl::StrFormat(
        "ordinal %d is %s/%s, %s, %s", p.ordinal, p.pool, p.incarnation, p.live ? "live" : "gone",
        p.start_step.has_value() ? absl::StrCat("since step ", *p.start_step) : "not ready"));
  }
  for (size_t f = 0; f < job->fragments.size(); ++f) {
    lines.push_back(absl::StrFormat("fragment %d version %d of %d, %d contributions to the next", f,
                                    job->fragments[f].version, job->fragments[f].last_version,
                                    job->fragments[f].contributors.size()));
  }
  for (const coordinator::SetAsideView& s : job->set_aside) {
    lines.push_back(absl::StrFormat("%s is set aside until %s: %s", s.pool,
                                    absl::FormatDuration(s.retry_at - absl::UnixEpoch()),
                                    s.fault.field));
  }
  if (job->divergence.has_value()) lines.push_back(job->divergence->words);
  if (job->waiting.has_value()) {
    const auto& [what, since, until] = *job->waiting;
    lines.push_back(absl::StrFormat(
        "waits for %s, since %s%s", what, absl::FormatDuration(since - absl::UnixEpoch()),
        until == absl::InfiniteFuture()
            ? ""
            : absl::StrCat(", until ", absl::FormatDuration(until - absl::UnixEpoch()))));
  }
  return lines;
}

Lines CoordinatorScenario::Pools(const Command&) {
  Lines lines;
  for (const coordinator::PoolView& pool : core_.pools()) {
    static const char* const kStates[] = {"idle",     "assigned", "participating", "lost",
                                          "draining", "away",     "forming"};
    std::string line = absl::StrCat(pool.pool, " ", kStates[static_cast<int>(pool.state) - 1]);
    if (pool.assignment.has_value()) absl::StrAppend(&line, " job=", pool.assignment->job);
    for (const coordinator::SetAsideView& s : pool.set_aside)
      absl::StrAppend(&line, " set aside for ", s.job, " after ", s.failures, " failures");
    lines.push_back(line);
  }
  return lines;
}

Lines CoordinatorScenario::Step(const coordinator::Event& event) {
  const coordinator::Decision decision = core_.Step(event, now_);
  for (const coordinator::Record& record : decision.records) Save(record);
  for (const coordinator::Work& work : decision.works) {
    const auto* apply = std::get_if<coordinator::ApplyRound>(&work);
    if (apply == nullptr) continue;
    fragments_.at(apply->job)[apply->round.fragment].evaluator = apply->evaluator;
    applying_[{apply->job, apply->round.fragment}] = apply->outer;
  }
  return ToLines(decision);
}

void CoordinatorScenario::Save(const coordinator::Record& record) {
  if (const auto* submitted = std::get_if<coordinator::StoreNewJob>(&record)) {
    order_.push_back(submitted->job);
    stored_[submitted->job] = submitted_;
  } else if (const auto* state = std::get_if<coordinator::StoreJobState>(&record)) {
    stored_.at(state->job).state = state->state;
  } else if (const auto* place = std::get_if<coordinator::StorePlace>(&record)) {
    auto& places = stored_.at(place->job).places;
    if (static_cast<int>(places.size()) <= place->place.ordinal)
      places.resize(place->place.ordinal + 1);
    places[place->place.ordinal] = place->place;
  } else if (const auto* evaluation = std::get_if<coordinator::StoreEvaluation>(&record)) {
    coordinator::RecoveredJob& job = stored_.at(evaluation->job);
    const coordinator::Evaluation& e = evaluation->evaluation;
    job.final_evaluation |= e.final;
    if (!e.of_pool) job.evaluation = {e.step, e.loss};
  } else if (const auto* request = std::get_if<coordinator::StoreCheckpointRequest>(&record)) {
    stored_.at(request->job).checkpoint_asked = request->cycle;
  } else if (const auto* pause = std::get_if<coordinator::StorePause>(&record)) {
    coordinator::RecoveredJob& job = stored_.at(pause->job);
    job.pause = pause->stage;
    if (pause->stage == PauseStage::kPausing) job.paused_by_guard = pause->by == kGuardName;
  } else if (const auto* deleted = std::get_if<coordinator::StoreDeleted>(&record)) {
    std::erase(order_, deleted->job);
    removing_.push_back(deleted->job);
  } else if (const auto* removed = std::get_if<coordinator::StoreRemoved>(&record)) {
    std::erase(removing_, removed->job);
  } else if (const auto* cleaned = std::get_if<coordinator::StoreCleanedUp>(&record)) {
    cleaned_up_.insert(cleaned->job);
  }
}

}  // namespace longhaul
