#include "tests/scenarios/session_commands.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tests/scenarios/core_text.h"

namespace longhaul {
namespace {

int FragmentOf(const Command& c) { return static_cast<int>(ParseNumbers(c.word(0))[0]); }

absl::Status StatusOf(const Command& c) {
  const std::string reason = c.Text("reason");
  const bool aborted = reason.starts_with("POOL_");
  return aborted ? absl::AbortedError(reason) : absl::FailedPreconditionError(reason);
}

session::Event Plan(const Command& c) {
  ScheduleOptions options{.fragments = static_cast<int>(c.Number("fragments", 1)),
                          .h = c.Number("h", 4),
                          .tau = c.Number("tau", 1),
                          .steps = c.Number("steps", 8)};
  session::Plan plan{.steps = options.steps,
                     .alpha = 0.5,
                     .final_round = !c.Has("no-final"),
                     .start_step = c.Number("start"),
                     .ordinal = static_cast<int>(c.Number("ordinal")),
                     .seed = c.Has("seed"),
                     .pool_evaluation_cycles = c.Number("evaluate-pool"),
                     .outer_evaluation_cycles = c.Number("evaluate-outer"),
                     .all_evaluate_last = c.Has("evaluate-last"),
                     .quorum = c.Has("quorum")};
  const std::vector<int64_t> versions = c.Numbers("versions"),
                             contributed = c.Numbers("contributed"), called = c.Numbers("called");
  const std::vector<FragmentSchedule> schedule = MakeSchedule(options);
  LH_CHECK(versions.size() == schedule.size(), "a plan has a version for each fragment");
  for (size_t f = 0; f < schedule.size(); ++f) {
    session::Commit newest{versions[f], versions[f] > 0 ? RoundKind::kOuter : RoundKind::kSeed,
                           false, c.Has("counted")};
    const bool here = f < contributed.size() && contributed[f] != 0;
    plan.fragments.push_back({schedule[f], newest, here, f < called.size() && called[f] != 0});
  }
  return session::PlanReceived{std::move(plan)};
}

session::Event CommitCame(const Command& c) {
  const int64_t version = c.Number("version");
  return session::CommitPublished{
      FragmentOf(c),
      {version, KindOf(c, version), c.Has("evaluate"), c.Has("contributed"), c.Has("earlier")}};
}

session::Event Called(const Command& c) {
  return session::RoundCalled{FragmentOf(c), c.Number("version")};
}

session::Event Seed(const Command&) { return session::SeedRequested{}; }

session::Event Whole(const Command& c) {
  return session::PulledWhole{FragmentOf(c), c.Number("version")};
}

session::Event PulledOne(const Command& c) {
  return session::Pulled{FragmentOf(c), c.Number("version")};
}

session::Event Agreed(const Command& c) {
  session::VersionsAgreed agreed;
  for (const std::string& rank : c.words()) agreed.versions.push_back(ParseNumbers(rank));
  return agreed;
}

session::Event Done(const Command& c) {
  return session::StepDone{ParseNumbers(c.word(0))[0], c.Has("drain"), c.Number("called")};
}

session::Event MergeWasDone(const Command& c) { return session::Merged{FragmentOf(c)}; }

session::Event MergeWasAgreed(const Command& c) { return session::MergeAgreed{!c.Has("not-here")}; }

session::Event DrainAsked(const Command& c) { return session::Drain{c.Has("stopped")}; }

session::Event Pushed(const Command& c) {
  return session::PushDone{FragmentOf(c), c.Number("version")};
}

session::Event PushWasRefused(const Command& c) {
  session::PushRefused refused{FragmentOf(c), c.Number("version"), StatusOf(c), c.Text("reason"),
                               std::nullopt};
  if (!c.Text("have").empty()) refused.have = c.Number("have");
  return refused;
}

session::Event PullWasRefused(const Command& c) {
  return session::PullRefused{FragmentOf(c), StatusOf(c), c.Text("reason")};
}

session::Event PlanWasRefused(const Command& c) {
  return session::PlanRefused{StatusOf(c), c.Text("reason")};
}

session::Event Disconnect(const Command&) { return session::Disconnected{}; }

session::Event End(const Command& c) { return session::Ended{c.word(0)}; }

}  // namespace

std::vector<std::string> SessionScenario::Run(const Command& command) {
  static const auto* const kHandlers = new std::map<std::string, Handler>{
      {"plan", &Plan},
      {"commit", &CommitCame},
      {"call", &Called},
      {"seed", &Seed},
      {"whole", &Whole},
      {"pulled", &PulledOne},
      {"agreed", &Agreed},
      {"done", &Done},
      {"merge-agreed", &MergeWasAgreed},
      {"merged", &MergeWasDone},
      {"drain", &DrainAsked},
      {"pushed", &Pushed},
      {"push-refused", &PushWasRefused},
      {"pull-refused", &PullWasRefused},
      {"plan-refused", &PlanWasRefused},
      {"disconnected", &Disconnect},
      {"ended", &End},
  };
  const auto handler = kHandlers->find(command.name());
  if (handler == kHandlers->end()) return {absl::StrCat("unknown command ", command.name())};
  Lines lines;
  for (const session::Action& action : core_.Step(handler->second(command), absl::UnixEpoch())) {
    lines.push_back(ToText(action));
  }
  return lines;
}

}  // namespace longhaul
