#include "common/plan/job/measured_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "common/config/load.h"
#include "common/plan/job/job_forecast.h"
#include "common/plan/job/pool_sites.h"
#include "common/plan/job/rank_costs.h"

namespace longhaul::plan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kMeasuredJob[] =
    "{name: planned, model: {transformer: {layers: 4, dim: 256, heads: 4, ff_dim: 768, context: "
    "256}}, data: {text: {path: corpus}}, train: {steps: 500, batch: 8}, sync: {h: 20, up: "
    "{codec: int8}}, pools: {min: 1}}";

ResolvedJob MeasuredJob(const std::vector<std::string>& overrides = {}) {
  return ResolveJobSpec(ParseJobSpec(kMeasuredJob, overrides).value()).value();
}

v1::HostFigures Figures() {
  v1::HostFigures figures;
  figures.set_version("1.0");
  figures.set_machine("Fast 9 x 4, 2 x 2 threads");
  figures.set_threads(2);
  figures.set_ranks(2);
  figures.set_seconds(2);
  for (const auto& [dim, gigaflops] : {std::pair{96, 40.0}, {256, 80.0}, {1024, 160.0}}) {
    v1::GemmFigure& gemm = *figures.add_gemm();
    gemm.set_dim(dim);
    gemm.set_gigaflops(gigaflops);
  }
  v1::CodecFigure& codec = *figures.add_codecs();
  codec.set_codec(v1::INT8);
  codec.set_encoded_per_second(2e9);
  codec.set_decoded_per_second(3e9);
  v1::KernelFigure& adamw = *figures.add_kernels();
  adamw.set_name("adamw");
  for (const auto& [bytes, rate] : {std::pair{int64_t{1} << 20, 2e9}, {int64_t{1} << 28, 1e9}}) {
    adamw.add_rates()->set_working_set_bytes(bytes);
    adamw.mutable_rates()->rbegin()->set_elements_per_second(rate);
  }
  figures.set_memory_gb_per_second(40);
  figures.set_exchange_gb_per_second(3);
  figures.add_cache_bytes(16 << 20);
  figures.set_memory_bytes(int64_t{8} << 30);
  return figures;
}

TEST(MeasuredRatesTest, ProductsOfOtherWidthsLieBetween) {
  const v1::HostFigures figures = Figures();
  const auto at = [&](double dim) { return MeasuredTeraflops(figures, dim, false).value(); };
  EXPECT_GT(at(256), 0);
  EXPECT_NEAR(at(256) / at(96), 2, 1e-9);
  EXPECT_NEAR(at(512) / at(256), std::sqrt(2), 1e-9);
  EXPECT_EQ(at(32), at(96));
  EXPECT_EQ(at(8192), at(1024));
  EXPECT_FALSE(MeasuredTeraflops(figures, 256, true).has_value());
  EXPECT_FALSE(MeasuredTeraflops({}, 256, false).has_value());
}

TEST(MeasuredRatesTest, UpdatesGoByTheWorkingSetAndTheSharedMemory) {
  v1::HostFigures figures = Figures();
  EXPECT_NEAR(MeasuredUpdates(figures, 1 << 10).value(), 2e9, 1e6);
  // 40 GB/s for two ranks, of 28 bytes for each parameter.
  EXPECT_NEAR(MeasuredUpdates(figures, 1 << 28).value(), 40e9 / 2 / 28, 1e6);
  figures.set_ranks(1);
  EXPECT_NEAR(MeasuredUpdates(figures, 1 << 28).value(), 1e9, 1e6);
  EXPECT_FALSE(MeasuredUpdates({}, 1 << 28).has_value());
}

TEST(MeasuredRatesTest, CodingIsThatOfTheCodecAndCopyingThatOfTheMemory) {
  EXPECT_EQ(MeasuredEncoding(Figures(), v1::INT8), 2e9);
  EXPECT_EQ(MeasuredDecoding(Figures(), v1::INT8), 3e9);
  EXPECT_FALSE(MeasuredEncoding(Figures(), v1::FP32).has_value());
  EXPECT_EQ(MeasuredCopying(Figures()), 40e9 / 2 / 8);
  EXPECT_FALSE(MeasuredCopying({}).has_value());
}

v1::Sites SitesWith(const v1::HostFigures* figures) {
  v1::Sites sites;
  v1::PoolSite& site = *sites.add_pools();
  site.set_name("east");
  site.set_ranks(2);
  if (figures != nullptr) *site.mutable_figures() = *figures;
  return sites;
}

std::string Assumed(const v1::JobForecast& forecast) {
  std::string text;
  for (const std::string& line : forecast.assumptions()) text += line + "\n";
  return text;
}

TEST(MeasuredRatesTest, AForecastUsesThemAndSaysWhatIsStillNominal) {
  const ResolvedJob job = MeasuredJob();
  const v1::HostFigures figures = Figures();
  const v1::Sites nominal = CompleteSites(job, SitesWith(nullptr)).value();
  const v1::Sites measured = CompleteSites(job, SitesWith(&figures)).value();
  const v1::PoolSite& site = measured.pools(0);
  EXPECT_TRUE(site.teraflops_of_figures());
  EXPECT_EQ(site.teraflops(), MeasuredTeraflops(figures, 256, false).value());
  EXPECT_EQ(site.node_gb_per_second(), 3);
  EXPECT_EQ(site.host_gib(), 8);
  EXPECT_EQ(CodingOf(job, site).code, 2 * 2e9);
  EXPECT_EQ(CodingOf(job, site).copy, 40e9 / 8);
  const v1::JobForecast forecast = ForecastJob(job, measured);
  EXPECT_TRUE(forecast.pools(0).has_host_fits());
  EXPECT_THAT(Assumed(forecast), HasSubstr("by the matrix products that its worker measured"));
  EXPECT_THAT(Assumed(forecast), Not(HasSubstr("(nominal")));
  EXPECT_THAT(Assumed(forecast), HasSubstr("the rate of the outer step is nominal"));
  EXPECT_THAT(Assumed(ForecastJob(job, nominal)), HasSubstr("(nominal, of a machine cpu)"));
  EXPECT_THAT(Assumed(ForecastJob(job, nominal)), HasSubstr("rates of coding, merging"));
  // What is complete stays as it is, and still says so.
  const v1::Sites again = CompleteSites(job, measured).value();
  EXPECT_EQ(again.SerializeAsString(), measured.SerializeAsString());
}

TEST(MeasuredRatesTest, WhatIsGivenCounts) {
  const ResolvedJob job = MeasuredJob();
  const v1::HostFigures figures = Figures();
  v1::Sites sites = SitesWith(&figures);
  sites.mutable_pools(0)->set_teraflops(5);
  sites.mutable_pools(0)->set_host_gib(1);
  sites.mutable_pools(0)->set_node_gb_per_second(7);
  const v1::Sites complete = CompleteSites(job, sites).value();
  EXPECT_EQ(complete.pools(0).teraflops(), 5);
  EXPECT_EQ(complete.pools(0).host_gib(), 1);
  EXPECT_EQ(complete.pools(0).node_gb_per_second(), 7);
  EXPECT_FALSE(complete.pools(0).teraflops_of_figures());
}

TEST(MeasuredRatesTest, AGpuIsNotWhatItsHostMeasured) {
  const ResolvedJob job = MeasuredJob({"train.device=cuda"});
  const v1::HostFigures figures = Figures();
  v1::Sites sites = SitesWith(&figures);
  sites.mutable_pools(0)->set_machine("h100");
  const v1::PoolSite site = CompleteSites(job, sites).value().pools(0);
  EXPECT_FALSE(site.teraflops_of_figures());
  EXPECT_EQ(site.node_gb_per_second(), 450);
  EXPECT_EQ(CodingOf(job, site).code, 2 * 2e9) << "the host codes";
}

TEST(MeasuredRatesTest, PoolsThatReportedThemHaveThem) {
  v1::ListPoolsResponse pools;
  v1::Pool& pool = *pools.add_pools();
  pool.set_name("east");
  pool.set_state(v1::IDLE);
  pool.set_device(v1::CPU);
  pool.set_ranks(2);
  *pool.mutable_figures() = Figures();
  const v1::Sites sites = SitesOfPools(MeasuredJob(), pools, {});
  EXPECT_EQ(sites.pools(0).figures().exchange_gb_per_second(), 3);
}

TEST(MeasuredRatesTest, EachFieldOutOfRangeIsNamed) {
  EXPECT_TRUE(FaultsOf(Figures(), "figures").empty());
  EXPECT_FALSE(FaultsOf({}, "figures").empty()) << "of no rank";
  const auto fault = [](const std::function<void(v1::HostFigures&)>& spoil) {
    v1::HostFigures figures = Figures();
    spoil(figures);
    const auto faults = FaultsOf(figures, "figures");
    return faults.empty() ? std::string("none") : faults[0].field;
  };
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(fault([](auto& f) { f.set_version(std::string(65, 'x')); }), "figures.version");
  EXPECT_EQ(fault([](auto& f) { f.set_machine(std::string(257, 'x')); }), "figures.machine");
  EXPECT_EQ(fault([](auto& f) { f.set_machine("\xff"); }), "figures.machine");
  for (const int threads : {0, -1, 4097})
    EXPECT_EQ(fault([&](auto& f) { f.set_threads(threads); }), "figures.threads");
  for (const int ranks : {0, -1, 257})
    EXPECT_EQ(fault([&](auto& f) { f.set_ranks(ranks); }), "figures.ranks");
  for (const double rate : {0.0, -1.0, 1e19, infinite, std::nan("")}) {
    EXPECT_EQ(fault([&](auto& f) { f.mutable_gemm(1)->set_gigaflops(rate); }),
              "figures.gemm[1].gigaflops");
    EXPECT_EQ(fault([&](auto& f) { f.mutable_codecs(0)->set_encoded_per_second(rate); }),
              "figures.codecs[0].encoded_per_second");
    EXPECT_EQ(fault([&](auto& f) { f.mutable_codecs(0)->set_decoded_per_second(rate); }),
              "figures.codecs[0].decoded_per_second");
    EXPECT_EQ(fault([&](auto& f) {
                f.mutable_kernels(0)->mutable_rates(1)->set_elements_per_second(rate);
              }),
              "figures.kernels[0].rates[1].elements_per_second");
  }
  for (const double rate : {-1.0, 1e19, infinite, std::nan("")}) {
    EXPECT_EQ(fault([&](auto& f) { f.set_memory_gb_per_second(rate); }),
              "figures.memory_gb_per_second");
    EXPECT_EQ(fault([&](auto& f) { f.set_exchange_gb_per_second(rate); }),
              "figures.exchange_gb_per_second");
    EXPECT_EQ(fault([&](auto& f) { f.set_seconds(rate); }), "figures.seconds");
  }
  EXPECT_EQ(fault([](auto& f) { f.mutable_gemm(0)->set_dim(0); }), "figures.gemm[0].dim");
  EXPECT_EQ(fault([](auto& f) { f.mutable_kernels(0)->set_name("Adam W"); }),
            "figures.kernels[0].name");
  EXPECT_EQ(
      fault([](auto& f) { f.mutable_kernels(0)->mutable_rates(0)->set_working_set_bytes(0); }),
      "figures.kernels[0].rates[0].working_set_bytes");
  EXPECT_EQ(fault([](auto& f) { f.set_memory_bytes(-1); }), "figures.memory_bytes");
  EXPECT_EQ(fault([](auto& f) { f.set_cache_bytes(0, -1); }), "figures.cache_bytes[0]");
  const auto many = [&](const auto& add, int count) {
    return fault([&](v1::HostFigures& f) {
      for (int i = 0; i < count; ++i) add(f);
    });
  };
  EXPECT_EQ(many([](auto& f) { f.add_gemm(); }, 20), "figures.gemm");
  EXPECT_EQ(many([](auto& f) { f.add_codecs(); }, 20), "figures.codecs");
  EXPECT_EQ(many([](auto& f) { f.add_kernels(); }, 20), "figures.kernels");
  EXPECT_EQ(many([](auto& f) { f.mutable_kernels(0)->add_rates(); }, 70),
            "figures.kernels[0].rates");
  EXPECT_EQ(many([](auto& f) { f.add_cache_bytes(1); }, 5), "figures.cache_bytes");
  // In a file of sites the fault has its place there.
  v1::HostFigures figures = Figures();
  figures.set_threads(0);
  std::vector<SpecViolation> violations;
  EXPECT_FALSE(CompleteSites(MeasuredJob(), SitesWith(&figures), &violations).ok());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "pools[0].figures.threads");
}

}  // namespace
}  // namespace longhaul::plan
