#include "common/plan/job/job_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/load.h"
#include "common/plan/job/rank_costs.h"

namespace longhaul::plan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Property;

constexpr char kJob[] =
    "{name: job, model: {transformer: {layers: 8, dim: 1024, heads: 16, ff_dim: 2816, context: "
    "1024, vocab: 32000}}, data: {text: {path: corpus}}, train: {steps: 50000, batch: 16, device: "
    "cuda}, sync: {h: 50, tau: 2}, pools: {min: 2}}";
constexpr char kSites[] =
    "pools: [{name: a, tokens_per_second: 20000, link: {up_mbps: 20}, machine: h100, ranks: 2}, "
    "{name: b, tokens_per_second: 20000, link: {up_mbps: 20}, machine: h100, ranks: 2}]";

ResolvedJob JobWith(const std::vector<std::string>& overrides = {}) {
  return ResolveJobSpec(ParseJobSpec(kJob, overrides).value()).value();
}
v1::Sites SitesOf(const ResolvedJob& job, const std::string& text = kSites) {
  return CompleteSites(job, ParseSites(text).value()).value();
}
std::vector<SpecViolation> ViolationsOf(const std::string& sites,
                                        const std::vector<std::string>& overrides = {}) {
  std::vector<SpecViolation> violations;
  const auto parsed = ParseSites(sites, &violations);
  if (parsed.ok()) EXPECT_FALSE(CompleteSites(JobWith(overrides), *parsed, &violations).ok());
  return violations;
}
double UtilizationAt(const ResolvedJob& job, v1::Sites sites, double mbps) {
  SetLinks(mbps, sites);
  return PaceOf(job, sites).utilization;
}
const v1::PlannedChange* Find(const std::vector<v1::PlannedChange>& changes,
                              const std::string& field) {
  for (const v1::PlannedChange& change : changes) {
    if (change.field() == field) return &change;
  }
  return nullptr;
}

TEST(JobForecastTest, PutsTimesBytesAndMemoryTogether) {
  const ResolvedJob job = JobWith();
  const v1::JobForecast forecast = ForecastJob(job, SitesOf(job));
  EXPECT_EQ(forecast.parameters(), job.model.elements());
  ASSERT_EQ(forecast.pools_size(), 2);
  const v1::PoolForecast& pool = forecast.pools(0);
  EXPECT_DOUBLE_EQ(pool.step_seconds(), 16 * 1024 / 20000.0);
  EXPECT_GT(pool.cycle().uplink() + pool.cycle().downlink(), 0);
  EXPECT_LT(forecast.pace_utilization(), 0.9);
  // What a link carries in an hour fits it.
  EXPECT_LE(pool.bytes_up_per_hour(), 20e6 / 8 * 3600 * 1.001);
  EXPECT_TRUE(pool.device_fits());
  EXPECT_FALSE(pool.has_host_fits()) << "its memory is not known";
  EXPECT_FALSE(forecast.has_cost());
  EXPECT_THAT(forecast.assumptions(), Contains(HasSubstr("coordinator.memory_gib is not known")));
  // 12 bytes a parameter, of the largest fragment again, and its coded downlink.
  EXPECT_GT(forecast.coordinator_memory_bytes(), 12.0 * static_cast<double>(job.model.elements()));
  EXPECT_LT(forecast.coordinator_memory_bytes(), 24.5 * static_cast<double>(job.model.elements()));
}

TEST(JobForecastTest, SaysWhatWouldReachAUtilization) {
  const ResolvedJob job = JobWith();
  const v1::Sites sites = SitesOf(job);
  const v1::JobForecast forecast = ForecastJob(job, sites);
  const std::vector<v1::PlannedChange> changes = ChangesFor(job, sites, forecast, 0.95);
  const v1::PlannedChange* const h = Find(changes, "sync.h");
  ASSERT_NE(h, nullptr);
  EXPECT_TRUE(h->reaches());
  // It is the smallest that does, and does.
  const std::string set = "sync.h=";
  const auto at = [&](int64_t value) {
    const ResolvedJob changed = JobWith({set + std::to_string(value)});
    return ForecastJob(changed, sites).pace_utilization();
  };
  EXPECT_GE(at(std::stoll(h->to())), 0.95);
  EXPECT_LT(at(std::stoll(h->to()) - 1), 0.95);
  const v1::PlannedChange* const link = Find(changes, "link");
  ASSERT_NE(link, nullptr);
  EXPECT_TRUE(link->reaches());
  EXPECT_GE(UtilizationAt(job, sites, std::stod(link->to())), 0.94);
  // Those that reach it come first.
  bool reaches = true;
  for (const v1::PlannedChange& change : changes) {
    EXPECT_LE(change.reaches(), reaches) << change.field();
    reaches = change.reaches();
  }
  EXPECT_TRUE(ChangesFor(job, sites, forecast, 0.01).empty());
}

TEST(JobForecastTest, TheExampleOfSitesIsThatOfItsJob) {
  const auto read = [](const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const ResolvedJob job =
      ResolveJobSpec(ParseJobSpec(read("deploy/examples/two_regions.yaml")).value()).value();
  const v1::JobForecast forecast =
      ForecastJob(job, SitesOf(job, read("deploy/examples/sites/two_regions.yaml")));
  EXPECT_TRUE(forecast.coordinator_memory_fits());
  for (const v1::PoolForecast& pool : forecast.pools())
    EXPECT_TRUE(pool.device_fits() && pool.host_fits()) << pool.name();
}

TEST(JobForecastTest, MoreBandwidthIsNeverWorse) {
  for (const char* tau : {"sync.tau=0", "sync.tau=10"}) {
    const ResolvedJob job = JobWith({tau});
    const v1::Sites sites = SitesOf(job);
    double before = 0;
    for (double mbps = 1; mbps < 1e5; mbps *= 1.5) {
      const double utilization = UtilizationAt(job, sites, mbps);
      EXPECT_GE(utilization, before - 1e-9);
      before = utilization;
    }
    EXPECT_GT(before, 0.9);
  }
}

TEST(JobForecastTest, EvaluationsTakeTime) {
  const auto with = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"train.steps=2000"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    const ResolvedJob job = JobWith(all);
    return ForecastJob(job, SitesOf(job));
  };
  const v1::JobForecast none = with({"evaluation.every_cycles=-1"});
  EXPECT_EQ(none.evaluation_seconds(), 0);
  const v1::JobForecast every = with(
      {"evaluation.every_cycles=-1", "evaluation.batches=30", "evaluation.pools_every_cycles=2"});
  // Forward alone: 10 steps' time, in each second of 39 cycles.
  const double step = 16 * 1024 / 20000.0;
  EXPECT_NEAR(every.evaluation_seconds(), 19.5 * 10 * step, 2 * 10 * step);
  EXPECT_GT(every.seconds(), none.seconds());
  EXPECT_GT(every.pools(0).cycle().evaluation(), 0);
  const ResolvedJob beside = JobWith({"evaluation.beside_training=true", "train.device=cpu"});
  const v1::Sites sites = SitesOf(beside, "pools: [{copies: 2, tokens_per_second: 20000}]");
  EXPECT_EQ(ForecastJob(beside, sites).evaluation_seconds(), 0);
}

TEST(JobForecastTest, SplitStateTakesLessOfARank) {
  const auto of = [](const std::string& preset) {
    const ResolvedJob job = JobWith({"partition.preset=" + preset});
    const v1::Sites sites =
        SitesOf(job, "pools: [{machine: h100, ranks: 4, host_gib: 64}, {machine: h100, ranks: 4}]");
    return MemoryOfPool(job, sites.pools(0));
  };
  const double parameters = static_cast<double>(JobWith().model.elements());
  const PoolMemory ddp = of("ddp"), zero1 = of("zero1"), zero3 = of("zero3");
  EXPECT_NEAR(ddp.device.optimizer(), 12 * parameters, 1);
  EXPECT_NEAR(zero1.device.optimizer(), 3 * parameters, 1e5);
  EXPECT_LT(zero3.device.total(), zero1.device.total());
  EXPECT_NEAR(zero3.device.gradients(), parameters, 1e5);
  EXPECT_EQ(zero3.host.available(), 64.0 * (1 << 30));
  const ResolvedJob offloaded = JobWith({"partition.preset=zero3", "offload.optimizer=true"});
  const PoolMemory host = MemoryOfPool(
      offloaded, SitesOf(offloaded, "pools: [{machine: h100, ranks: 4, copies: 2}]").pools(0));
  const v1::PoolSite site =
      SitesOf(offloaded, "pools: [{machine: h100, ranks: 4, copies: 2}]").pools(0);
  EXPECT_GT(StepCostsOf(offloaded, site).update, 10 * StepCostsOf(JobWith(), site).update);
  EXPECT_EQ(host.device.optimizer(), 0);
  EXPECT_NEAR(host.host.optimizer(), 16 * parameters, 1e6) << "masters, moments, gradients";
}

// Bytes of a rank without exchange, as measured (tests/benchmark/README.md, A large vocabulary).
TEST(JobForecastTest, ALargeVocabularyTakesWhatWasMeasured) {
  for (const auto& [blocks, precision, mib] :
       {std::tuple{"AUTOGRAD", "FLOAT32", 1435}, std::tuple{"AUTOGRAD", "BFLOAT16", 1686},
        std::tuple{"AUTO", "FLOAT32", 1440}, std::tuple{"AUTO", "BFLOAT16", 1539}}) {
    const ResolvedJob job = JobWith(
        {"model={transformer: {layers: 1, dim: 256, heads: 4, ff_dim: 512, context: 128, vocab: "
         "128256}}",
         absl::StrCat("train={steps: 100, batch: 4, device: CPU, blocks: ", blocks,
                      ", precision: ", precision, "}")});
    const v1::Sites sites = SitesOf(job, "pools: [{copies: 2, tokens_per_second: 1000}]");
    const v1::RankMemory memory = MemoryOfPool(job, sites.pools(0)).device;
    EXPECT_NEAR((memory.total() - memory.exchange()) / (mib * 1048576.0), 1, 0.1)
        << blocks << " " << precision;
  }
}

TEST(JobForecastTest, CountsOperationsLikeKaplan) {
  // Six for each parameter that is multiplied, and attention.
  const ResolvedJob job = JobWith();
  const double matrices = 8 * (4.0 * 1024 * 1024 + 3.0 * 1024 * 2816) + 32000.0 * 1024;
  EXPECT_NEAR(OperationsPerToken(job), 6 * matrices + 6.0 * 8 * 1024 * 1024, 1);
  const ResolvedJob again = JobWith({"train.activations=RECOMPUTE"});
  EXPECT_GT(OperationsPerToken(again), 1.2 * OperationsPerToken(job));
  const ResolvedJob tied = JobWith({"model.transformer.tie_embeddings=true"});
  EXPECT_NEAR(OperationsPerToken(tied), OperationsPerToken(job), 1);
}

TEST(JobForecastTest, RefusesSitesThatAreWrongOrContradictTheJob) {
  const auto field = [](const std::string& name) {
    return Contains(Field(&SpecViolation::field, name));
  };
  EXPECT_THAT(ViolationsOf("pools: []"), field("pools"));
  EXPECT_THAT(ViolationsOf("pools: [{machine: h100}]"), field("pools")) << "the job needs two";
  EXPECT_THAT(ViolationsOf("pools: [{machine: h99, copies: 2}]"), field("pools[0].machine"));
  EXPECT_THAT(ViolationsOf("pools: [{machine: cpu, copies: 2}]"), field("pools[0].machine"));
  EXPECT_THAT(ViolationsOf("pools: [{copies: 2}]"), field("pools[0]"));
  EXPECT_THAT(ViolationsOf("pools: [{machine: h100, copies: 2, link: {up_mbps: -1}}]"),
              field("pools[0].link.up_mbps"));
  EXPECT_THAT(ViolationsOf("pools: [{machine: h100, copies: 2, link: {rtt_ms: 1e9}}]"),
              field("pools[0].link.rtt_ms"));
  EXPECT_THAT(ViolationsOf("pools: [{machine: h100, copies: 2, nodes: 300}]"),
              field("pools[0].nodes"));
  EXPECT_THAT(ViolationsOf("pools: [{machine: h100, copies: 5000}]"), field("pools[0].copies"));
  EXPECT_THAT(
      ViolationsOf("pools: [{machine: h100, ranks: 3, copies: 2}]", {"partition.preset=frontier3"}),
      field("pools[0].ranks"));
  EXPECT_THAT(ViolationsOf("pools: [{machin: h100}]"), field("pools[0].machin"));
  EXPECT_THAT(ViolationsOf("pools: [{machine: h100, copies: 2, name: Oslo}]"),
              field("pools[0].name"));
  EXPECT_THAT(ViolationsOf("pools: [{machine: h100, copies: 2, tokens_per_second: .nan}]"),
              field("pools[0].tokens_per_second"));
  EXPECT_THAT(ViolationsOf("pools: [{machine: h100, name: a}, {machine: h100, name: a}]"),
              field("pools[1].name"));
  EXPECT_THAT(ViolationsOf("pools: [{machine: h100}, {machine: h100, name: pool-1}]"),
              field("pools[1].name"))
      << "the first one has this name by default";
}

// What a job takes is divided by them.
TEST(JobForecastTest, RefusesRatesAndSizesThatNoNumberCanHold) {
  const auto field = [](const std::string& name) {
    return Contains(Field(&SpecViolation::field, name));
  };
  for (const char* rate : {"tokens_per_second", "teraflops", "pair_gb_per_second",
                           "node_gb_per_second", "pool_gb_per_second"}) {
    for (const char* value : {"1e-300", "-1", "1e300", "0"}) {
      EXPECT_THAT(ViolationsOf(
                      absl::StrCat("pools: [{machine: h100, copies: 2, ", rate, ": ", value, "}]")),
                  field(absl::StrCat("pools[0].", rate)));
    }
  }
  for (const char* way : {"up_mbps", "down_mbps"}) {
    for (const char* value : {"1e-300", "1e-4", "1e300", "0"}) {
      EXPECT_THAT(ViolationsOf(absl::StrCat("pools: [{machine: h100, copies: 2, link: {", way, ": ",
                                            value, "}}]")),
                  field(absl::StrCat("pools[0].link.", way)));
      EXPECT_THAT(ViolationsOf(absl::StrCat("{pools: [{machine: h100, copies: 2}], coordinator: "
                                            "{link: {",
                                            way, ": ", value, "}}}")),
                  field(absl::StrCat("coordinator.link.", way)));
    }
  }
  for (const char* size : {"device_gib", "host_gib"}) {
    EXPECT_THAT(ViolationsOf(absl::StrCat("pools: [{machine: h100, copies: 2, ", size, ": 1e15}]")),
                field(absl::StrCat("pools[0].", size)));
  }
  for (const char* count : {"copies", "nodes", "ranks", "cores"}) {
    for (const char* value : {"0", "-1"}) {
      EXPECT_THAT(ViolationsOf(absl::StrCat("pools: [{machine: h100, ", count, ": ", value, "}]")),
                  field(absl::StrCat("pools[0].", count)));
    }
  }
  // The least and the most that are accepted give numbers.
  for (const char* rate : {"1e-9", "1e15"}) {
    const v1::JobForecast forecast = ForecastJob(
        JobWith(), SitesOf(JobWith(), absl::StrCat("pools: [{machine: h100, copies: 2, link: "
                                                   "{up_mbps: 1e-3}, tokens_per_second: ",
                                                   rate, ", pool_gb_per_second: ", rate,
                                                   ", price_per_hour: 1e15}]")));
    EXPECT_TRUE(std::isfinite(forecast.seconds()));
    EXPECT_TRUE(std::isfinite(forecast.cost()));
    EXPECT_TRUE(std::isfinite(forecast.pace_utilization()));
  }
}

TEST(JobForecastTest, NamesEachNumberThatItAssumed) {
  const ResolvedJob job = JobWith();
  const v1::JobForecast forecast = ForecastJob(
      job, SitesOf(job,
                   "pools: [{name: a, machine: h100, link: {down_mbps: 500}, price_per_hour: "
                   "3}, {name: b, machine: h100}]"));
  EXPECT_THAT(forecast.assumptions(),
              AllOf(Contains("a: a link of 1000 Mbit/s from the site"),
                    Contains("b: a link of 1000 Mbit/s"),
                    Contains("b: price_per_hour is not known, so the cost is not"),
                    Contains("coordinator.disk_gib is not known, so whether it fits is not")));
  EXPECT_FALSE(forecast.has_cost());
}

TEST(JobForecastTest, APriceOfZeroIsAPrice) {
  const ResolvedJob job = JobWith();
  const auto cost = [&](const std::string& price) {
    return ForecastJob(job, SitesOf(job,
                                    "pools: [{name: a, machine: h100, price_per_hour: 3}, "
                                    "{name: b, machine: h100, price_per_hour: " +
                                        price + "}]"))
        .cost();
  };
  EXPECT_GT(cost("0"), 0);
  EXPECT_DOUBLE_EQ(cost("3"), 2 * cost("0"));
}

}  // namespace
}  // namespace longhaul::plan
