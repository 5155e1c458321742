// The time of a step of the owner thread: with one live job, and with 1,000 that ended in the same
// run beside 100 live ones. Both on the same disk, a batch of each in turn.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/benchmark/coordinator/figures.h"
#include "tests/benchmark/coordinator/local_coordinator.h"
#include "tests/benchmark/harness/row.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::benchmark {
namespace {

constexpr double kTarget = 1 / 1.2;
// More than any batch takes.
constexpr int64_t kSteps = 1'000'000'000;

class Side {
 public:
  Side(int ended, int live) : coordinator_(dir_.path()) {
    for (int i = 0; i < ended; ++i) coordinator_.RunToEnd(absl::StrCat("ended-", i), "pool-ended");
    for (int i = 0; i < live; ++i) {
      jobs_.push_back(
          coordinator_.Begin(absl::StrCat("live-", i), absl::StrCat("pool-", i), kSteps));
    }
  }

  // Mean seconds of a step: of the first job, or of all in turn, which the caches know less well.
  double Heartbeats(int count, bool in_turn) {
    double seconds = 0;
    for (int i = 0; i < count; ++i) {
      const LocalCoordinator::LiveJob& job = At(i, in_turn);
      seconds += coordinator_.Step(coordinator::Heartbeat{.pool = job.pool,
                                                          .incarnation = "0123456789abcdef",
                                                          .job = job.id,
                                                          .inner_step = ++inner_step_});
    }
    return seconds / count;
  }
  // Likewise; each stores a record.
  double Evaluations(int count) {
    double seconds = 0;
    for (int i = 0; i < count; ++i) {
      const LocalCoordinator::LiveJob& job = jobs_[i % jobs_.size()];
      const int64_t step = ++inner_step_;
      seconds += coordinator_.Step(
          coordinator::Heartbeat{.pool = job.pool,
                                 .incarnation = "0123456789abcdef",
                                 .job = job.id,
                                 .inner_step = step,
                                 .evaluations = {{.step = step % 1000, .loss = 2.5}}});
    }
    return seconds / count;
  }
  // Of the two steps of a round.
  double Rounds(int count, bool in_turn) {
    double seconds = 0;
    for (int i = 0; i < count; ++i) seconds += coordinator_.Round(At(i, in_turn));
    return seconds / (2 * count);
  }
  double Ticks(int count) {
    double seconds = 0;
    for (int i = 0; i < count; ++i) seconds += coordinator_.Step(coordinator::Tick{});
    return seconds / count;
  }
  // With all that is done once a second: counters, gauges.
  double Second() {
    double seconds = 0;
    for (int i = 0; i < 5; ++i) seconds += coordinator_.Tick();
    return seconds;
  }

 private:
  LocalCoordinator::LiveJob& At(int i, bool in_turn) {
    return jobs_[in_turn ? i % jobs_.size() : 0];
  }

  const TempDir dir_;
  LocalCoordinator coordinator_;
  std::vector<LocalCoordinator::LiveJob> jobs_;
  int64_t inner_step_ = 0;
};

}  // namespace

void BenchmarkSteps(const Scale& scale) {
  const int ended = scale.ended > 0 ? scale.ended : scale.smoke ? 5 : 1000;
  const int live = scale.live > 0 ? scale.live : scale.smoke ? 3 : 100;
  const int repetitions = scale.smoke ? 1 : 31;
  const int cheap = scale.smoke ? 10 : 2000, durable = scale.smoke ? 2 : 20;
  Side few(0, 1), many(ended, live);
  const auto row = [&](const std::string& name, std::optional<double> target,
                       const std::string& note, const std::function<double(Side&)>& seconds) {
    // Both are warm.
    seconds(few);
    seconds(many);
    std::vector<double> ours, reference;
    for (int i = 0; i < repetitions; ++i) {
      ours.push_back(1e6 * seconds(many));
      reference.push_back(1e6 * seconds(few));
    }
    const double a = Median(ours), b = Median(reference);
    Print({.name = name,
           .ours = a,
           .reference = b,
           .ratio = b / a,
           .target = target,
           .unit = "us",
           .note = absl::StrCat(ended, " ended and ", live, " live jobs; reference: one live job; ",
                                note)});
  };
  for (const bool in_turn : {false, true}) {
    const std::string suffix = in_turn ? "_in_turn" : "";
    const std::string whose = in_turn ? "of all jobs in turn" : "of one job";
    const auto target = in_turn ? std::optional<double>() : kTarget;
    row("step_heartbeat" + suffix, target, "heartbeats " + whose,
        [&](Side& side) { return side.Heartbeats(cheap, in_turn); });
    row("step_round" + suffix, target,
        "a contribution and a commit " + whose + ", without the log and the arithmetic",
        [&](Side& side) { return side.Rounds(durable, in_turn); });
  }
  row("step_evaluation", kTarget, "a heartbeat with an evaluation, durable, all jobs in turn",
      [&](Side& side) { return side.Evaluations(durable); });
  row("step_tick", kTarget, "a tick with nothing due",
      [&](Side& side) { return side.Ticks(cheap); });
  row("second", std::nullopt, "all that is done once a second",
      [&](Side& side) { return side.Second(); });
}

}  // namespace longhaul::benchmark
