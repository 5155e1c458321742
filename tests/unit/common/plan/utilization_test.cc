#include "common/plan/utilization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace longhaul::plan {
namespace {

constexpr double kTargets[] = {0.5, 0.8, 0.9, 0.95, 0.99};

// The paper's models: parameters spread over layers, H = 100, fragments of three layers.
ExchangeModel ModelOf(const std::string& method, double parameters, int layers, double step) {
  ExchangeModel model{.parameters = parameters, .layers = layers, .step_seconds = step};
  model.fragment_layers = 3;
  if (method == "dp" || method == "diloco") model.fragment_layers = layers;
  if (method == "dp") model.h = 1;
  if (method == "overlap" || method == "overlap-fp4") model.tau = 1;
  if (method == "overlap-fp4") model.bits = 4;
  return model;
}

struct Row {
  const char* method;
  std::vector<double> gbit;
};

// Streaming DiLoCo, Table 4, 1B parameters: within one step of the grid, which two papers that give
// this table disagree by.
TEST(UtilizationTest, ReproducesThePublishedTable) {
  const double step = BandwidthGrid()[1] / BandwidthGrid()[0];
  EXPECT_NEAR(step, 1.207, 0.001);
  const Row rows[] = {{"dp", {86.8, 152.6, 184.2, 222.3, 569.0}},
                      {"diloco", {1.4, 6.2, 13.3, 23.3, 86.8}},
                      {"streaming", {1.4, 5.2, 9.1, 16.0, 28.1}},
                      {"overlap", {1.4, 4.3, 6.2, 9.1, 11.0}},
                      {"overlap-fp4", {0.4, 0.9, 1.7, 2.0, 3.0}}};
  for (const Row& row : rows) {
    const ExchangeModel model = ModelOf(row.method, 1e9, 24, 0.1);
    for (size_t i = 0; i < row.gbit.size(); ++i) {
      const auto bandwidth = BandwidthFor(model, kTargets[i]);
      ASSERT_TRUE(bandwidth.has_value());
      // Printed numbers are those of the grid, cut or rounded to 0.1.
      const double steps = std::log(*bandwidth / 1e9 / row.gbit[i]) / std::log(step);
      EXPECT_LE(std::abs(std::round(steps)), 1) << row.method << " " << kTargets[i];
    }
  }
}

// What this model gave when it was written, to 0.1 Gbit/s.
TEST(UtilizationTest, StaysAsItWas) {
  const Row rows[] = {{"dp", {86.9, 152.6, 184.2, 222.3, 686.6}},
                      {"diloco", {1.7, 6.3, 13.3, 28.1, 86.9}},
                      {"streaming", {1.7, 6.3, 11.0, 16.0, 28.1}},
                      {"overlap", {1.7, 4.3, 7.5, 9.1, 11.0}},
                      {"overlap-fp4", {0.4, 1.2, 1.7, 2.4, 2.9}}};
  for (const Row& row : rows) {
    const ExchangeModel model = ModelOf(row.method, 1e9, 24, 0.1);
    for (size_t i = 0; i < row.gbit.size(); ++i)
      EXPECT_NEAR(*BandwidthFor(model, kTargets[i]) / 1e9, row.gbit[i], 0.05) << row.method;
  }
}

TEST(UtilizationTest, GrowsWithTheBandwidthUpToWhatTheBytesAllow) {
  for (const char* method : {"dp", "diloco", "streaming", "overlap", "overlap-fp4"}) {
    const ExchangeModel model = ModelOf(method, 1e10, 48, 0.8);
    double before = 0;
    for (const double bandwidth : BandwidthGrid()) {
      const double utilization = Utilization(model, bandwidth);
      EXPECT_GE(utilization, before - 1e-9) << method << " " << bandwidth;
      EXPECT_LE(utilization, 1 + 1e-9);
      // In a steady state all bytes of a period pass in it. Two periods that are measured may owe
      // one transfer of them.
      const double bits = model.parameters * model.bits;
      EXPECT_LE(utilization, 1.5 * bandwidth * model.h * model.step_seconds / bits + 1e-9);
      before = utilization;
    }
    EXPECT_GT(before, 0.98) << method;
  }
}

TEST(UtilizationTest, NoBandwidthOfTheGridMayBeEnough) {
  ExchangeModel model = ModelOf("dp", 1e12, 100, 0.01);
  EXPECT_FALSE(BandwidthFor(model, 0.5).has_value());
  model.parameters = 1;
  EXPECT_EQ(BandwidthFor(model, 0.99), BandwidthGrid().front());
}

}  // namespace
}  // namespace longhaul::plan
