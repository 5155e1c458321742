#include "coordinator/simulation/job_simulation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "common/plan/job/job_forecast.h"
#include "common/plan/outer_state.h"
#include "common/rpc/codec_proto.h"
#include "common/simulation/event_loop.h"
#include "common/simulation/network.h"
#include "coordinator/simulation/simulated_coordinator.h"
#include "coordinator/simulation/simulated_pool.h"

namespace longhaul::coordinator {
namespace {

constexpr std::pair<const char*, FaultKind> kFaults[] = {
    {"pool-lost", FaultKind::kPoolLost},
    {"slow", FaultKind::kSlow},
    {"link-down", FaultKind::kLinkDown},
    {"coordinator-down", FaultKind::kCoordinatorDown}};

// A job that takes so many times as long as its forecast, and a day, does not end.
constexpr double kTooLong = 50;
// Of an evaluation: forward takes about a third of a step.
constexpr double kForward = 1.0 / 3;

double BytesPerSecond(double rate) { return std::isfinite(rate) ? rate : 0; }

class Simulation {
 public:
  Simulation(const ResolvedJob& job, const JobSimulationOptions& options,
             plan::ExchangeSetting exchange, std::vector<plan::PoolRates> rates)
      : job_(job),
        options_(options),
        rates_(std::move(rates)),
        network_(&loop_, options.seed),
        random_(options.seed, 2),
        coordinator_(&loop_, OptionsOf(job, options, std::move(exchange))) {
    coordinator_.set_on_counted(
        [this](const std::string& pool, const std::string& incarnation, int fragment,
               int64_t version) { by_name_.at(pool)->Counted(incarnation, fragment, version); });
  }

  JobSimulationResult Run() {
    const plan::ExchangeSetting& exchange = coordinator_.options().exchange;
    const plan::ExchangeForecast forecast = plan::ForecastExchange(exchange, rates_);
    BuildPools();
    coordinator_.Start();
    // Placement looks at all pools when one joins while a job waits, so they are there before.
    for (const auto& pool : pools_) pool->Start();
    coordinator_.Submit();
    for (const SimulatedFault& fault : options_.faults) Plan(fault, fault.at_seconds);
    const absl::Time end =
        absl::UnixEpoch() + absl::Seconds(kTooLong * forecast.seconds) + absl::Hours(24);
    while (!coordinator_.ended().has_value() && loop_.RunOne(end)) {
    }
    JobSimulationResult result = Sums();
    for (const plan::TimeShares& shares : forecast.pools)
      result.forecast_utilization += shares.utilization() / static_cast<double>(rates_.size());
    result.forecast_seconds = forecast.seconds;
    return result;
  }

 private:
  static SimulatedCoordinator::Options OptionsOf(const ResolvedJob& job,
                                                 const JobSimulationOptions& options,
                                                 plan::ExchangeSetting exchange) {
    const v1::SyncSpec& sync = job.spec.sync();
    SimulatedCoordinator::Options result;
    result.job = {.name = job.spec.name(),
                  .pools_min = options.pools,
                  .pools_max = options.pools,
                  .steps = exchange.steps,
                  .final_round = sync.final_round(),
                  .checkpoint_every_cycles = job.spec.checkpoint().every_cycles(),
                  .evaluation_every_cycles = job.spec.evaluation().every_cycles()};
    for (const plan::ExchangedFragment& fragment : exchange.fragments)
      result.job.schedule.push_back(fragment.schedule);
    if (exchange.quorum > 0) {
      result.job.rounds = {.quorum = exchange.quorum,
                           .grace = absl::Seconds(sync.quorum().grace_seconds())};
    }
    result.alpha = sync.alpha();
    result.pools_max = options.pools;
    result.exchange = std::move(exchange);
    return result;
  }

  void BuildPools() {
    const plan::ExchangeSetting& exchange = coordinator_.options().exchange;
    if (std::isfinite(exchange.hub_up) || std::isfinite(exchange.hub_down)) {
      network_.SetPort(kCoordinatorNode, BytesPerSecond(exchange.hub_up),
                       BytesPerSecond(exchange.hub_down));
    }
    const double batches = job_.spec.evaluation().batches();
    for (int i = 0; i < options_.pools; ++i) {
      const plan::PoolRates& rates = rates_[i];
      const absl::Duration delay = absl::Seconds(rates.link.round_trip / 2);
      // The pool has the higher number.
      network_.SetLink(kCoordinatorNode, i + 1,
                       {.delay_min = delay,
                        .delay_mean = delay,
                        .bytes_per_second = BytesPerSecond(rates.link.down),
                        .back_bytes_per_second = BytesPerSecond(rates.link.up)});
      pools_.push_back(std::make_unique<SimulatedPool>(
          &loop_, &network_, &coordinator_,
          SimulatedPool::Options{
              .name = absl::StrFormat("pool-%d", i + 1),
              .node = i + 1,
              .rates = rates,
              .evaluation = absl::Seconds(kForward * batches * rates.step_seconds)}));
      by_name_[pools_.back()->name()] = pools_.back().get();
    }
  }

  // At this time, and again if it comes again and again.
  void Plan(const SimulatedFault& fault, double at) {
    const auto next = [&](double from) {
      if (fault.per_hour <= 0) return from;
      return from - std::log1p(-random_.Uniform()) * 3600 / fault.per_hour;
    };
    const double when = next(at);
    loop_.At(absl::UnixEpoch() + absl::Seconds(when), [this, fault, when] {
      if (coordinator_.ended().has_value()) return;
      Happen(fault);
      if (fault.per_hour > 0) Plan(fault, when);
    });
  }

  void Happen(const SimulatedFault& fault) {
    const absl::Duration lasts = absl::Seconds(fault.lasts_seconds);
    if (fault.kind == FaultKind::kCoordinatorDown) {
      coordinator_.Crash(lasts);
      return network_.BreakAll(kCoordinatorNode);
    }
    const size_t index = fault.pool > 0 ? fault.pool - 1 : random_.Below(pools_.size());
    SimulatedPool& pool = *pools_[index];
    switch (fault.kind) {
      case FaultKind::kPoolLost:
        return pool.Lose(lasts);
      case FaultKind::kSlow:
        return pool.SlowDown(fault.factor, lasts);
      default:
        return pool.CutLink(lasts);
    }
  }

  JobSimulationResult Sums() {
    JobSimulationResult result{.pools = options_.pools,
                               .completed = coordinator_.ended() == JobState::kCompleted,
                               .why = coordinator_.fault(),
                               .steps = coordinator_.options().job.steps,
                               .seconds = absl::ToDoubleSeconds(loop_.now() - absl::UnixEpoch()),
                               .commits = coordinator_.commits(),
                               .skipped = coordinator_.skipped(),
                               .utilization_least = 1,
                               .coordinator_restarts = coordinator_.restarts(),
                               .events = loop_.events_run(),
                               .messages = network_.messages_sent()};
    if (!result.completed && result.why.empty()) {
      result.why = coordinator_.ended().has_value()
                       ? absl::StrCat("it is ", JobStateName(*coordinator_.ended()))
                       : absl::StrFormat("it did not end within %g times its forecast", kTooLong);
    }
    const double tokens_of_step = static_cast<double>(job_.spec.train().batch()) *
                                  static_cast<double>(job_.spec.model().transformer().context());
    double ideal = 0;
    int trained = 0;
    for (const auto& pool : pools_) {
      const SimulatedPool::Sums& sums = pool->sums();
      const double all = sums.compute + sums.copying + sums.wait;
      ideal += tokens_of_step / pool->rates().step_seconds;
      result.tokens += tokens_of_step * static_cast<double>(sums.steps);
      result.committed_tokens += tokens_of_step * static_cast<double>(sums.counted_steps);
      result.bytes_up += sums.bytes_up;
      result.bytes_down += sums.bytes_down;
      result.pools_lost += sums.losses;
      result.rank_starts += sums.starts;
      if (all <= 0) continue;
      const double share = sums.compute / all;
      ++trained;
      result.utilization += share;
      result.utilization_least = std::min(result.utilization_least, share);
      result.utilization_most = std::max(result.utilization_most, share);
    }
    if (trained > 0) result.utilization /= trained;
    if (trained == 0) result.utilization_least = 0;
    // The seeds come from one pool.
    const auto fragments = static_cast<double>(coordinator_.options().exchange.fragments.size());
    const double possible = static_cast<double>(result.commits + result.skipped) * options_.pools;
    if (possible > 0) {
      result.contributed =
          std::max(0.0, (static_cast<double>(coordinator_.contributions()) - fragments) / possible);
    }
    if (result.seconds > 0) {
      result.commits_per_hour = static_cast<double>(result.commits) * 3600 / result.seconds;
      result.goodput = result.committed_tokens / result.seconds;
      result.goodput_share = result.goodput / ideal;
    }
    std::vector<int64_t> elements;
    for (const plan::ExchangedFragment& fragment : coordinator_.options().exchange.fragments)
      elements.push_back(fragment.elements);
    result.coordinator_bytes =
        plan::OuterStateBytes(elements, CodecOptionsOf(job_.spec.sync().down()));
    return result;
  }

  const ResolvedJob& job_;
  const JobSimulationOptions& options_;
  const std::vector<plan::PoolRates> rates_;
  sim::EventLoop loop_;
  sim::Network network_;
  Random random_;
  SimulatedCoordinator coordinator_;
  std::vector<std::unique_ptr<SimulatedPool>> pools_;
  std::unordered_map<std::string, SimulatedPool*> by_name_;
};

// The steps of a job with so many rounds, all fragments together, without the final round.
int64_t StepsOf(const ResolvedJob& job, int64_t rounds) {
  const int64_t fragments = static_cast<int64_t>(job.fragments.size());
  const int64_t h = job.spec.sync().h();
  const int64_t cycles = (rounds + fragments - 1) / fragments;
  // The first round of some fragments is a cycle later.
  return std::min<int64_t>(job.spec.train().steps(), (cycles + 1) * h);
}

}  // namespace

std::string FaultNames() {
  std::string names;
  for (const auto& [name, kind] : kFaults) absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  return names;
}

absl::StatusOr<FaultKind> FaultOf(absl::string_view name) {
  for (const auto& [known, kind] : kFaults) {
    if (name == known) return kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is not a fault; expected one of ", FaultNames()));
}

absl::StatusOr<JobSimulationResult> SimulateJob(const ResolvedJob& job, const v1::Sites& sites,
                                                const JobSimulationOptions& options) {
  plan::ExchangeSetting exchange = plan::ExchangeSettingOf(job, sites);
  if (exchange.quorum > options.pools) {
    return absl::InvalidArgumentError(
        absl::StrFormat("sync.quorum.pools of the job is %d, which is more than %d pools",
                        exchange.quorum, options.pools));
  }
  for (const SimulatedFault& fault : options.faults) {
    if (fault.pool > options.pools) {
      return absl::InvalidArgumentError(
          absl::StrFormat("a fault names pool %d of %d", fault.pool, options.pools));
    }
  }
  exchange.steps = StepsOf(job, options.rounds);
  const std::vector<FragmentSchedule> schedule =
      MakeSchedule({.fragments = static_cast<int>(exchange.fragments.size()),
                    .h = job.spec.sync().h(),
                    .tau = job.spec.sync().tau(),
                    .steps = exchange.steps});
  for (size_t f = 0; f < schedule.size(); ++f) exchange.fragments[f].schedule = schedule[f];
  const std::vector<plan::PoolRates> kinds = plan::PoolRatesOf(job, sites);
  std::vector<plan::PoolRates> rates;
  for (int i = 0; i < options.pools; ++i) rates.push_back(kinds[i % kinds.size()]);
  return Simulation(job, options, std::move(exchange), std::move(rates)).Run();
}

}  // namespace longhaul::coordinator
