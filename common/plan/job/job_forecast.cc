#include "common/plan/job/job_forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/plan/exchange_forecast.h"
#include "common/plan/job/machines.h"
#include "common/plan/job/rank_costs.h"
#include "common/plan/outer_state.h"
#include "common/rpc/codec_proto.h"

namespace longhaul::plan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kHour = 3600;
// Of the coordinator, nominal: elements per second of one contribution (tests/benchmark: a round
// runs at 0.7 to 0.9 of a memcpy of the state), and the seconds that a round takes in addition: its
// log and its messages.
constexpr double kAppliedPerSecond = 5e8, kRoundSeconds = 0.003;

// Of what a link carries: the rest are headers of Ethernet, IP, TCP and HTTP/2.
constexpr double kPayload = 0.95;

double BytesPerSecond(double mbps) { return kPayload * mbps * 1e6 / 8; }

std::unique_ptr<Codec> CodecOf(const v1::CodecSpec& spec) {
  absl::StatusOr<std::unique_ptr<Codec>> codec = MakeCodec(CodecOptionsOf(spec));
  LH_CHECK(codec.ok(), "the job is resolved");
  return *std::move(codec);
}

// By site.
std::vector<StepCosts> CostsOf(const ResolvedJob& job, const v1::Sites& sites) {
  std::vector<StepCosts> costs;
  for (const v1::PoolSite& site : sites.pools()) costs.push_back(StepCostsOf(job, site));
  return costs;
}

// By pool, copies one after another.
std::vector<PoolRates> RatesOf(const ResolvedJob& job, const v1::Sites& sites,
                               const std::vector<StepCosts>& costs) {
  std::vector<PoolRates> pools;
  for (int i = 0; i < sites.pools_size(); ++i) {
    const v1::SiteLink& link = sites.pools(i).link();
    const CodingRates coding = CodingOf(job, sites.pools(i));
    const PoolRates rates{.step_seconds = costs[i].step,
                          .link = {BytesPerSecond(link.up_mbps()), BytesPerSecond(link.down_mbps()),
                                   link.rtt_ms() / 1e3},
                          .code = coding.code,
                          .decode = coding.decode,
                          .copy = coding.copy,
                          .evaluation_seconds = costs[i].evaluation};
    pools.insert(pools.end(), sites.pools(i).copies(), rates);
  }
  return pools;
}

// The utilization of the pool that sets the pace.
double PaceOf(const ExchangeForecast& exchange) {
  double pace = 0;
  for (const TimeShares& shares : exchange.pools) pace = std::max(pace, shares.utilization());
  return pace;
}

void SetFits(const PoolMemory& memory, v1::PoolForecast& pool) {
  *pool.mutable_device() = memory.device;
  *pool.mutable_host() = memory.host;
  if (memory.device.available() > 0)
    pool.set_device_fits(memory.device.total() <= memory.device.available());
  if (memory.host.available() > 0)
    pool.set_host_fits(memory.host.total() <= memory.host.available());
}

// The seconds of a cycle, of times that were measured over others.
void SetCycle(const TimeShares& shares, double cycle_seconds, v1::CycleSeconds& cycle) {
  const double all = shares.all() + shares.evaluation;
  const double scale = all > 0 ? cycle_seconds / all : 0;
  cycle.set_evaluation(scale * shares.evaluation);
  cycle.set_compute(scale * shares.compute);
  cycle.set_copying(scale * shares.copying);
  cycle.set_uplink(scale * shares.uplink);
  cycle.set_others(scale * shares.others);
  cycle.set_coordinator(scale * shares.coordinator);
  cycle.set_downlink(scale * shares.downlink);
}

void AddAssumptions(const ResolvedJob& job, const v1::Sites& sites, v1::JobForecast& forecast) {
  std::set<std::string> assumed;
  const bool priced =
      std::any_of(sites.pools().begin(), sites.pools().end(),
                  [](const v1::PoolSite& site) { return site.has_price_per_hour(); });
  bool coding = false;
  for (const v1::PoolSite& site : sites.pools()) {
    const v1::HostFigures& figures = site.figures();
    coding = coding || figures.codecs().empty() || figures.memory_gb_per_second() <= 0;
    if (site.link().assumed()) {
      assumed.insert(absl::StrFormat(
          "%s: a link of %g Mbit/s%s", site.name(), site.link().up_mbps(),
          site.link().down_mbps() == site.link().up_mbps() ? "" : " from the site"));
    }
    if (priced && !site.has_price_per_hour())
      assumed.insert(site.name() + ": price_per_hour is not known, so the cost is not");
    if (site.tokens_per_second() > 0) continue;
    if (site.teraflops_of_figures()) {
      assumed.insert(absl::StrFormat(
          "%s: %.3g TFLOP/s of each rank, by the matrix products that its worker measured; "
          "tokens_per_second of a short run is more exact",
          site.name(), site.teraflops()));
    } else if (!site.speed_measured()) {
      assumed.insert(absl::StrFormat(
          "%s: %.3g TFLOP/s of each rank%s; give tokens_per_second of a "
          "short run in place of it",
          site.name(), site.teraflops(),
          site.machine().empty() ? "" : " (nominal, of a machine " + site.machine() + ")"));
    }
    if (site.device_gib() == 0 && job.spec.train().device() == v1::CUDA)
      assumed.insert(site.name() + ": device_gib is not known, so whether it fits is not");
    if (site.host_gib() == 0)
      assumed.insert(site.name() + ": host_gib is not known, so whether it fits is not");
  }
  if (!sites.coordinator().has_link()) assumed.insert("the coordinator's own link is not a limit");
  if (sites.coordinator().memory_gib() == 0)
    assumed.insert("coordinator.memory_gib is not known, so whether it fits is not");
  if (sites.coordinator().disk_gib() == 0)
    assumed.insert("coordinator.disk_gib is not known, so whether it fits is not");
  for (const std::string& text : assumed) forecast.add_assumptions(text);
  forecast.add_assumptions(coding ? "rates of coding, merging and the outer step are nominal"
                                  : "the rate of the outer step is nominal");
}

}  // namespace

ExchangeSetting ExchangeSettingOf(const ResolvedJob& job, const v1::Sites& sites) {
  const v1::SyncSpec& sync = job.spec.sync();
  const auto up = CodecOf(sync.up()), down = CodecOf(sync.down());
  ExchangeSetting setting{.steps = job.spec.train().steps(),
                          .final_round = sync.final_round(),
                          .quorum = sync.mode() == v1::QUORUM ? sync.quorum().pools() : 0,
                          .hub_up = kInfinite,
                          .hub_down = kInfinite,
                          .apply = kAppliedPerSecond,
                          .apply_seconds = kRoundSeconds,
                          .outer_evaluation_rounds = job.spec.evaluation().every_cycles(),
                          .pool_evaluation_rounds = job.spec.evaluation().pools_every_cycles()};
  for (size_t f = 0; f < job.fragments.size(); ++f) {
    const int64_t elements = job.fragments[f].elements;
    setting.fragments.push_back({elements, static_cast<double>(up->FragmentBytes(elements)),
                                 static_cast<double>(down->FragmentBytes(elements)),
                                 job.schedule[f]});
  }
  if (sites.coordinator().has_link()) {
    setting.hub_up = BytesPerSecond(sites.coordinator().link().up_mbps());
    setting.hub_down = BytesPerSecond(sites.coordinator().link().down_mbps());
  }
  return setting;
}

std::vector<PoolRates> PoolRatesOf(const ResolvedJob& job, const v1::Sites& sites) {
  return RatesOf(job, sites, CostsOf(job, sites));
}

v1::JobForecast ForecastJob(const ResolvedJob& job, const v1::Sites& sites) {
  const v1::TrainSpec& train = job.spec.train();
  const ExchangeSetting setting = ExchangeSettingOf(job, sites);
  const std::vector<StepCosts> costs_of = CostsOf(job, sites);
  const ExchangeForecast exchange = ForecastExchange(setting, RatesOf(job, sites, costs_of));
  v1::JobForecast forecast;
  forecast.set_parameters(job.model.elements());
  forecast.set_steps(train.steps());
  forecast.set_seconds(exchange.seconds);
  forecast.set_cycle_seconds(exchange.period_seconds);
  double up = 0, down = 0;
  for (const ExchangedFragment& fragment : setting.fragments) {
    up += fragment.up_bytes;
    down += fragment.down_bytes;
  }
  const double cycles_per_hour = exchange.period_seconds > 0 ? kHour / exchange.period_seconds : 0;
  const double tokens_of_step = static_cast<double>(train.batch()) *
                                static_cast<double>(job.spec.model().transformer().context());
  size_t index = 0;
  int64_t count = 0;
  double utilization = 0, evaluation = 0, tokens = 0, prices = 0;
  bool priced = true;
  for (const v1::PoolSite& site : sites.pools()) {
    const TimeShares& shares = exchange.pools[index];
    v1::PoolForecast& pool = *forecast.add_pools();
    pool.set_name(site.name());
    pool.set_copies(site.copies());
    pool.set_ranks(site.nodes() * site.ranks());
    const StepCosts& costs = costs_of[forecast.pools_size() - 1];
    pool.set_step_seconds(costs.step);
    pool.set_compute_seconds(costs.compute);
    pool.set_exchange_seconds(costs.exchange);
    pool.set_update_seconds(costs.update);
    pool.set_tokens_per_second(tokens_of_step / costs.step);
    pool.set_utilization(shares.utilization());
    pool.set_left_out(exchange.left_out[index]);
    SetCycle(shares, exchange.period_seconds, *pool.mutable_cycle());
    pool.set_bytes_up_per_hour(cycles_per_hour * up);
    pool.set_bytes_down_per_hour(cycles_per_hour * down);
    SetFits(MemoryOfPool(job, site), pool);
    utilization += site.copies() * shares.utilization();
    evaluation += site.copies() * shares.evaluation;
    tokens += site.copies() * tokens_of_step * static_cast<double>(train.steps()) *
              (1 - exchange.left_out[index]);
    prices += site.copies() * site.price_per_hour();
    priced = priced && site.has_price_per_hour();
    count += site.copies();
    index += site.copies();
  }
  forecast.set_utilization(utilization / static_cast<double>(count));
  forecast.set_evaluation_seconds(evaluation / static_cast<double>(count));
  forecast.set_pace_utilization(PaceOf(exchange));
  forecast.set_tokens(tokens);
  forecast.set_bytes_up_per_hour(static_cast<double>(count) * cycles_per_hour * up);
  forecast.set_bytes_down_per_hour(static_cast<double>(count) * cycles_per_hour * down);
  if (priced) forecast.set_cost(prices * exchange.seconds / kHour);

  std::vector<int64_t> elements;
  for (const FragmentLayout& fragment : job.fragments) elements.push_back(fragment.elements);
  const double parameters = static_cast<double>(job.model.elements());
  const v1::CoordinatorSite& coordinator = sites.coordinator();
  const double memory =
      static_cast<double>(OuterStateBytes(elements, CodecOptionsOf(job.spec.sync().down())));
  forecast.set_coordinator_memory_bytes(memory);
  // Two snapshots, the log since the older one (about as much as one), and the checkpoints, of
  // which one more is written before the oldest is removed.
  const double disk = 3 * 12 * parameters + 4 * parameters * (job.spec.checkpoint().keep() + 1);
  forecast.set_coordinator_disk_bytes(disk);
  if (coordinator.memory_gib() > 0)
    forecast.set_coordinator_memory_fits(memory <= coordinator.memory_gib() * kGiB);
  if (coordinator.disk_gib() > 0)
    forecast.set_coordinator_disk_fits(disk <= coordinator.disk_gib() * kGiB);
  AddAssumptions(job, sites, forecast);
  return forecast;
}

Pace PaceOf(const ResolvedJob& job, const v1::Sites& sites) {
  const ExchangeForecast exchange =
      ForecastExchange(ExchangeSettingOf(job, sites), RatesOf(job, sites, CostsOf(job, sites)));
  return {PaceOf(exchange), exchange.seconds};
}

void SetLinks(double mbps, v1::Sites& sites) {
  for (v1::PoolSite& site : *sites.mutable_pools()) {
    site.mutable_link()->set_up_mbps(mbps);
    site.mutable_link()->set_down_mbps(mbps);
    site.mutable_link()->set_assumed(false);
  }
}

}  // namespace longhaul::plan
