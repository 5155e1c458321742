#include "tests/scenarios/coordinator_commands.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "tests/scenarios/core_text.h"

namespace longhaul {
namespace {

using Lines = std::vector<std::string>;

RoundKind KindNamed(const std::string& name) {
  for (RoundKind kind :
       {RoundKind::kSeed, RoundKind::kOuter, RoundKind::kFinal, RoundKind::kSkipped}) {
    if (name == RoundKindName(kind)) return kind;
  }
  LH_CHECK(false, "no such kind of round");
  return RoundKind::kOuter;
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
      {"join", &CoordinatorScenario::Join},
      {"heartbeat", &CoordinatorScenario::Heartbeat},
      {"leave", &CoordinatorScenario::Leave},
      {"ready", &CoordinatorScenario::Ready},
      {"contribute", &CoordinatorScenario::Contribute},
      {"applied", &CoordinatorScenario::Applied},
      {"evaluated", &CoordinatorScenario::Evaluated},
      {"failed", &CoordinatorScenario::Failed},
      {"tick", &CoordinatorScenario::Tick},
      {"restart", &CoordinatorScenario::Restart},
      {"show", &CoordinatorScenario::Show},
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
  submitting_ = JobOptions{.pools_min = static_cast<int>(c.Number("min", 1)),
                           .pools_max = static_cast<int>(c.Number("max", 64)),
                           .pool_names = absl::StrSplit(c.Text("names"), ',', absl::SkipEmpty()),
                           .schedule = MakeSchedule(schedule),
                           .steps = schedule.steps,
                           .final_round = !c.Has("no-final"),
                           .checkpoint_every_cycles = c.Number("checkpoint"),
                           .evaluation_every_cycles = c.Number("evaluate", 1)};
  return Step(coordinator::SubmitJob{c.word(0), submitting_});
}

Lines CoordinatorScenario::Cancel(const Command& c) {
  return Step(coordinator::CancelJob{c.word(0), c.Text("reason")});
}

Lines CoordinatorScenario::Join(const Command& c) {
  const auto make = [&](const std::string& pool) {
    return coordinator::JoinPool{pool, c.Text("inc", "1"), 1};
  };
  return ForEachPool(c, 0, make, [this](const coordinator::Event& e) { return Step(e); });
}

Lines CoordinatorScenario::Heartbeat(const Command& c) {
  const auto make = [&](const std::string& pool) {
    return coordinator::Heartbeat{pool, c.Text("inc", "1"), c.Text("job"), c.Number("step")};
  };
  return ForEachPool(c, 0, make, [this](const coordinator::Event& e) { return Step(e); });
}

Lines CoordinatorScenario::Leave(const Command& c) {
  const auto make = [&](const std::string& pool) {
    return coordinator::LeavePool{pool, c.Text("inc", "1")};
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
  const int fragment = static_cast<int>(c.Number("fragment"));
  const int64_t version = c.Number("version");
  const auto make = [&](const std::string& pool) {
    store_.jobs.at(c.word(0)).log[{fragment, version, pool, c.Text("inc", "1")}] = {};
    return coordinator::ContributionComplete{
        c.word(0), pool,    c.Text("inc", "1"),
        fragment,  version, KindNamed(c.Text("kind", version == 0 ? "seed" : "outer"))};
  };
  return ForEachPool(c, 1, make, [this](const coordinator::Event& e) { return Step(e); });
}

Lines CoordinatorScenario::Applied(const Command& c) {
  const int fragment = static_cast<int>(c.Number("fragment"));
  store_.jobs.at(c.word(0)).fragments[fragment].version = c.Number("version");
  return Step(coordinator::RoundApplied{c.word(0), fragment, c.Number("version")});
}

Lines CoordinatorScenario::Evaluated(const Command& c) {
  return Step(
      coordinator::EvaluationReported{c.word(1), c.Text("inc", "1"), c.word(0), c.Has("final")});
}

Lines CoordinatorScenario::Failed(const Command& c) {
  JobFault fault{.code = "NOT_FOUND", .field = c.Text("field"), .hint = c.Text("hint")};
  return Step(coordinator::PoolFailed{c.word(1), c.Text("inc", "1"), c.word(0), fault});
}

Lines CoordinatorScenario::Tick(const Command&) { return Step(coordinator::Tick{}); }

Lines CoordinatorScenario::Restart(const Command&) {
  core_ = coordinator::Coordinator({}, store_.Recover(), now_);
  return {};
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

Lines CoordinatorScenario::Step(const coordinator::Event& event) {
  Lines lines;
  for (const coordinator::Action& action : core_.Step(event, now_)) {
    Save(action);
    lines.push_back(ToText(action));
  }
  return lines;
}

void CoordinatorScenario::Save(const coordinator::Action& action) {
  if (const auto* state = std::get_if<coordinator::PersistJobState>(&action)) {
    if (!store_.jobs.contains(state->job)) store_.AddJob(state->job, submitting_);
    store_.jobs.at(state->job).state = state->state;
  } else if (const auto* place = std::get_if<coordinator::PersistParticipant>(&action)) {
    store_.Save(*place);
  } else if (const auto* left = std::get_if<coordinator::PersistParticipantLeft>(&action)) {
    store_.Save(*left);
  } else if (const auto* apply = std::get_if<coordinator::ApplyRound>(&action)) {
    store_.jobs.at(apply->job).fragments[apply->fragment].evaluator = apply->evaluator;
  }
}

}  // namespace longhaul
