#include "common/plan/clock_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace longhaul::plan {
namespace {

constexpr Clocks kBase = {4, 4, 4, 4};

// The published points that are shipped (deploy/examples/cores).
using Points = std::map<std::string, std::vector<ClockSample>>;

// The rows of a file, without headings: a name and numbers.
std::vector<std::pair<std::string, std::vector<double>>> RowsOf(const std::string& name) {
  std::ifstream file("deploy/examples/cores/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::vector<std::pair<std::string, std::vector<double>>> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("workload")) continue;
    std::stringstream cells(line);
    std::string cell;
    std::getline(cells, cell, ',');
    auto& [workload, numbers] = rows.emplace_back(cell, std::vector<double>());
    while (std::getline(cells, cell, ',')) numbers.push_back(std::stod(cell));
  }
  return rows;
}

Points PointsOf(std::initializer_list<const char*> files) {
  Points points;
  for (const char* const file : files) {
    for (const auto& [workload, n] : RowsOf(file))
      points[workload].push_back({{n[0], n[1], n[2], n[3]}, n[4]});
  }
  return points;
}

std::map<std::string, Counters> CountersOf(const std::string& file) {
  std::map<std::string, Counters> counters;
  for (const auto& [workload, n] : RowsOf(file)) {
    counters[workload] = {.ghz = n[0],
                          .seconds = n[9] / 1e3,
                          .instructions = n[1],
                          .l1i = n[2],
                          .l1d = n[3],
                          .l2_accesses = n[5],
                          .l3_accesses = n[7],
                          .l3_misses = n[8]};
  }
  return counters;
}

Clocks ClocksOf(int configuration, double ghz) {
  Clocks clocks = kBase;
  clocks.core = ghz;
  if (configuration >= 1) clocks.l1 = ghz;
  if (configuration >= 2) clocks.l2 = ghz;
  if (configuration >= 3) clocks.l3 = ghz;
  return clocks;
}

using Models = std::map<std::string, ClockModel>;

Models Calibrated(CoreKind core) {
  Models models;
  for (const auto& [workload, samples] : PointsOf({"times.csv"}))
    models[workload] = *FitClocks(samples, core);
  return models;
}

Models Counted(const std::string& file, const AccessCost& cost) {
  Models models;
  for (const auto& [workload, counters] : CountersOf(file))
    models[workload] = *FromCounters(counters, cost);
  return models;
}

// Sorted.
struct Errors {
  std::vector<double> sorted;
  double median() const { return sorted[sorted.size() / 2]; }
  double p90() const { return sorted[sorted.size() * 9 / 10]; }
};

Errors ErrorsOf(const Models& models, const Points& points) {
  Errors errors;
  for (const auto& [workload, samples] : points) {
    for (const ClockSample& sample : samples)
      errors.sorted.push_back(
          std::abs(models.at(workload).Seconds(sample.clocks) / sample.seconds - 1));
  }
  std::sort(errors.sorted.begin(), errors.sorted.end());
  return errors;
}

double MeanSpeedup(const Models& models, const Clocks& clocks) {
  double sum = 0;
  for (const auto& [workload, model] : models)
    sum += std::log(model.Seconds(kBase) / model.Seconds(clocks));
  return std::exp(sum / static_cast<double>(models.size()));
}

std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<double>(i);
  return ranks;
}

double Correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return ab / std::sqrt(aa * bb);
}

double RankCorrelation(const Models& models, const Points& points) {
  std::vector<double> predicted, real;
  for (const auto& [workload, samples] : points) {
    const double base = models.at(workload).Seconds(kBase);
    for (const ClockSample& sample : samples) {
      predicted.push_back(base / models.at(workload).Seconds(sample.clocks));
      real.push_back(base / sample.seconds);
    }
  }
  return Correlation(RanksOf(predicted), RanksOf(real));
}

TEST(ClockModelTest, PredictsPublishedTimesFromTwoClocks) {
  const Points held_out = PointsOf({"points.csv"});
  size_t points = 0;
  for (const auto& [workload, samples] : held_out) points += samples.size();
  EXPECT_EQ(points, 96u);
  const Errors added = ErrorsOf(Calibrated(CoreKind::kInOrder), held_out);
  EXPECT_LE(added.median(), 0.03);
  EXPECT_LE(added.p90(), 0.12);
  EXPECT_LE(added.sorted.back(), 0.26);
  const Errors overlapped = ErrorsOf(Calibrated(CoreKind::kOutOfOrder), held_out);
  EXPECT_LE(overlapped.median(), 0.02);
  EXPECT_LE(overlapped.p90(), 0.08);
  EXPECT_LE(overlapped.sorted.back(), 0.16);
}

TEST(ClockModelTest, PredictsPublishedTimesFromCountersOfOneRun) {
  const Models models = Counted("counters.csv", kOutOfOrder);
  for (const auto& [workload, counters] : CountersOf("counters.csv"))
    EXPECT_NEAR(models.at(workload).Seconds(kBase), counters.seconds, 1e-9) << workload;
  const Points points = PointsOf({"times.csv", "points.csv"});
  const Errors errors = ErrorsOf(models, points);
  EXPECT_LE(errors.median(), 0.05);
  EXPECT_LE(errors.sorted.back(), 0.54);
  EXPECT_GE(RankCorrelation(models, points), 0.97);
}

TEST(ClockModelTest, PredictsPublishedTimesOfACoreInOrder) {
  const Models models = Counted("counters_in_order.csv", kInOrder);
  const Points points = PointsOf({"points_in_order.csv"});
  const Errors errors = ErrorsOf(models, points);
  EXPECT_LE(errors.median(), 0.10);
  EXPECT_LE(errors.sorted.back(), 0.20);
  EXPECT_GE(RankCorrelation(models, points), 0.95);
}

// The published means with the core alone at 100 GHz, and with each level of the caches.
TEST(ClockModelTest, MeetsThePublishedMeansFarBeyondTheClocksOfItsFit) {
  for (const Models& models :
       {Calibrated(CoreKind::kOutOfOrder), Counted("counters.csv", kOutOfOrder)}) {
    EXPECT_NEAR(MeanSpeedup(models, ClocksOf(0, 100)), 2.06, 0.1);
    EXPECT_NEAR(MeanSpeedup(models, ClocksOf(1, 100)), 5.34, 0.4);
    EXPECT_NEAR(MeanSpeedup(models, ClocksOf(2, 100)), 11.3, 1);
    EXPECT_NEAR(MeanSpeedup(models, ClocksOf(3, 100)), 14.9, 1);
    for (const auto& [workload, model] : models) {
      EXPECT_LE(model.Seconds(ClocksOf(0, 20)) / model.Seconds(ClocksOf(0, 100)), 1.2) << workload;
    }
  }
}

// A program that memory holds back: the constants alone would say more than its time.
TEST(ClockModelTest, WaitsAreNeverLongerThanTheTime) {
  const Counters counters{.ghz = 4,
                          .seconds = 1,
                          .instructions = 2000,
                          .l1i = 500,
                          .l1d = 600,
                          .l2_accesses = 90,
                          .l3_accesses = 60,
                          .l3_misses = 50};
  EXPECT_EQ(counters.MissesPerThousandInstructions(), 25);
  for (const AccessCost& cost : {kOutOfOrder, kInOrder}) {
    const ClockModel model = *FromCounters(counters, cost);
    EXPECT_NEAR(model.Seconds(kBase), 1, 1e-9);
    EXPECT_EQ(model.Limit(ClocksOf(3, 100)), ClockTerm::kMemory);
    EXPECT_GT(model.Seconds(ClocksOf(3, 100)), 0.4);
    EXPECT_LT(model.Seconds(ClocksOf(3, 100)), 1);
  }
}

TEST(ClockModelTest, TermsOfACoreOutOfOrderOverlap) {
  const ClockModel made{{8, 3, 2, 1, 0.5}, CoreKind::kOutOfOrder};
  double sum = 0;
  for (const double share : made.Shares(kBase)) sum += share;
  EXPECT_NEAR(made.Seconds(kBase), sum, 1e-12);
  EXPECT_LT(made.Seconds(kBase), ClockModel{made.terms}.Seconds(kBase));
  std::vector<ClockSample> samples;
  for (int c = 0; c < 4; ++c)
    for (const double ghz : {4.0, 20.0})
      samples.push_back({ClocksOf(c, ghz), made.Seconds(ClocksOf(c, ghz))});
  const ClockModel fitted = *FitClocks(samples, CoreKind::kOutOfOrder);
  for (int t = 0; t < 5; ++t) EXPECT_NEAR(fitted.terms[t], made.terms[t], 1e-3) << t;
  // A tenth of the time, with what follows it.
  Clocks stops = kBase;
  stops.core = *made.CoreStopsPaying(kBase);
  EXPECT_NEAR(made.Shares(stops)[0] / made.Seconds(stops), 0.1, 1e-9);
  EXPECT_EQ(made.CoreStoppedBy(kBase), ClockTerm::kL1);
}

TEST(ClockModelTest, OneFetchInFlightBoundsACoreWithSlowCaches) {
  const struct {
    double l1i, ms;
  } kRuns[] = {{26.41, 19.77}, {54.15, 42.82}, {8.24, 6.215}, {2.21, 1.692}};
  for (const auto& run : kRuns)
    EXPECT_NEAR(FetchBoundSeconds(run.l1i, 4) * 1e3, run.ms, 0.06 * run.ms);
}

TEST(ClockModelTest, AFitFindsTheTermsAndWhatLimits) {
  const ClockModel made{{8, 1, 0, 2, 0.5}};
  std::vector<ClockSample> samples;
  for (int c = 0; c < 4; ++c)
    for (const double ghz : {4.0, 20.0})
      samples.push_back({ClocksOf(c, ghz), made.Seconds(ClocksOf(c, ghz))});
  const auto fitted = FitClocks(samples);
  ASSERT_TRUE(fitted.ok());
  for (int t = 0; t < 5; ++t) EXPECT_NEAR(fitted->terms[t], made.terms[t], 1e-6) << t;
  EXPECT_EQ(made.Limit(kBase), ClockTerm::kCore);
  EXPECT_EQ(made.Limit(ClocksOf(3, 100)), ClockTerm::kMemory);
  // 8 / f is a tenth of 8 / f + 1.25.
  EXPECT_NEAR(*made.CoreStopsPaying(kBase), 8 * 9 / 1.25, 1e-9);
  EXPECT_EQ(made.CoreStoppedBy(kBase), ClockTerm::kL3);
  EXPECT_EQ(*ClockModel({{0, 1, 0, 0, 0}}).CoreStopsPaying(kBase), 0);
  EXPECT_FALSE(ClockModel({{1, 0, 0, 0, 0}}).CoreStoppedBy(kBase).has_value());
  EXPECT_FALSE(ClockModel({{1, 0, 0, 0, 0}}).CoreStopsPaying(kBase).has_value());
}

TEST(ClockModelTest, TermsAreNeverNegative) {
  // Slower with a faster core: no term explains that.
  const auto fitted = FitClocks(std::vector<ClockSample>{{kBase, 1}, {ClocksOf(0, 20), 2}});
  ASSERT_TRUE(fitted.ok());
  for (const double term : fitted->terms) EXPECT_GE(term, 0);
  EXPECT_FALSE(FitClocks({}).ok());
  EXPECT_FALSE(FitClocks(std::vector<ClockSample>{{{0, 4, 4, 4}, 1}}).ok());
  EXPECT_FALSE(FromCounters({.ghz = 4, .seconds = 1, .l1i = -1}, kOutOfOrder).ok());
  EXPECT_FALSE(FromCounters({.ghz = 4, .seconds = 0}, kOutOfOrder).ok());
}

}  // namespace
}  // namespace longhaul::plan
