// A graph job of one rank, trained as a rank does it: batches are made ahead by another thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "worker/data/prefetched_batches.h"
#include "worker/engine/engine.h"
#include "worker/family/family.h"
#include "worker/family/graph/graph_family.h"

namespace longhaul {

struct GraphRun {
  at::Device device = at::kCPU;
  GraphKernels kernels = {};
  FeatureOptions features = {};
  GraphAggregator aggregator = GraphAggregator::kMean;
  std::vector<int64_t> fanout = {3, 2};
  int ranks_of_node = 1, accumulation = 2;
};

struct GraphResult {
  // Losses and norms, step by step, the sums of an evaluation, and the parameters.
  std::vector<double> numbers;
  std::string description, warning;
};

inline TrainingPlan PlanOf(const GraphRun& run) {
  return {.batch = 40,
          .accumulation = run.accumulation,
          .seed = 5,
          .optimizer = AdamWOptions{},
          .partition = PartitionPreset("ddp").value()};
}

// `path`: a graph of 9 columns and 5 classes. `*warning`, which must outlive the family: what it
// warns of.
inline absl::StatusOr<Family> OpenGraphRun(const std::string& path, const GraphRun& run,
                                           std::string* warning) {
  const GraphOptions options{.shape = {.columns = 9,
                                       .hidden = 8,
                                       .classes = 5,
                                       .fanout = run.fanout,
                                       .aggregator = run.aggregator,
                                       .normalize = true,
                                       .layer_norm = true},
                             .field = "data.graph",
                             .path = path,
                             .features = run.features,
                             .on_warning =
                                 [warning](const DataWarning& given) {
                                   EXPECT_EQ(given.kind, kFeatureAccess);
                                   *warning = given.message;
                                 },
                             .kernels = run.kernels};
  return GraphFamily(options)(
      {.plan = PlanOf(run), .ranks_of_node = run.ranks_of_node, .device = run.device});
}

// `path`: as of OpenGraphRun.
inline GraphResult TrainGraph(const std::string& path, const GraphRun& run) {
  at::set_num_threads(1);
  GraphResult result;
  auto family = OpenGraphRun(path, run, &result.warning);
  EXPECT_TRUE(family.ok()) << family.status();
  if (!family.ok()) return result;
  result.description = family->features;
  PrefetchedBatches batches(std::move(family->maker));
  const auto engine =
      Engine::Create({.plan = PlanOf(run), .model = std::move(family->model), .device = run.device})
          .value();
  for (int64_t step = 1; step <= 6; ++step) {
    const absl::StatusOr<ExampleBatch> batch = batches.Take(step);
    EXPECT_TRUE(batch.ok()) << batch.status();
    batches.Prepare(step + 1);
    const auto stepped =
        engine->Step([&](int micro, int of) { return family->stager->Stage(*batch, micro, of); },
                     static_cast<double>(batch->pool_weight), 0.01);
    EXPECT_TRUE(stepped.ok()) << stepped.status();
    if (!stepped.ok()) return result;
    result.numbers.insert(result.numbers.end(), {stepped->loss_sum, stepped->gradient_norm});
  }
  const ExampleBatch held_out = batches.TakeHeldOut(0, 1).value();
  const auto sums = engine->Evaluate(family->stager->Stage(held_out, 0, 1).value()).value();
  result.numbers.insert(result.numbers.end(), sums.begin(), sums.end());
  for (int unit = 0; unit < static_cast<int>(engine->layout().units.size()); ++unit) {
    std::vector<float> values(engine->layout().units[unit].elements);
    EXPECT_TRUE(engine->Read(unit, 0, absl::MakeSpan(values)).ok());
    result.numbers.insert(result.numbers.end(), values.begin(), values.end());
  }
  return result;
}

// Some of torch's operators round in another way on a device.
inline void ExpectNearlyEqual(const std::vector<double>& actual,
                              const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-3 * std::max(0.1, std::abs(expected[i]))) << i;
}

}  // namespace longhaul
