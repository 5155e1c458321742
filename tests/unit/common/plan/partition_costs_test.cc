// The tables of ZeRO++ (arXiv 2306.10209) and its three-level form; tests/benchmark/partition
// compares with what the engine moves.
#include "common/plan/partition_costs.h"

#include <gtest/gtest.h>

#include <string>

namespace longhaul::plan {
namespace {

constexpr int64_t kElements = 128 * 1024;
constexpr int kUnits = 3;
constexpr double kAll = kUnits * kElements;

PartitionSetting SettingOf(const std::string& preset, int nodes, int ranks, int accumulation = 1) {
  PartitionSetting setting{.layout = {},
                           .topology = Topology::Make(std::vector<int>(nodes, ranks)).value(),
                           .map = PartitionPreset(preset).value(),
                           .accumulation = accumulation};
  for (int unit = 0; unit < kUnits; ++unit) {
    setting.layout.units.push_back({"layer",
                                    UnitKind::kBlock,
                                    unit,
                                    kElements,
                                    {{"matrix", {1, kElements}, 0, kElements, true}}});
  }
  // Of nothing, since the last unit is not gathered for backward: the papers' tables gather all.
  setting.layout.units.push_back({"head", UnitKind::kHead});
  return setting;
}

// What a node receives from others.
double FromNodes(const LevelBytes& bytes, int ranks) { return bytes.pool * ranks; }

TEST(PartitionCostsTest, DdpReducesOnceAStep) {
  const PartitionTraffic traffic = TrafficOf(SettingOf("ddp", 2, 4, 3));
  EXPECT_EQ(traffic.forward.total().sum(), 0);
  EXPECT_EQ(traffic.refresh.total().sum(), 0);
  // Out and back, in two bytes.
  EXPECT_DOUBLE_EQ(FromNodes(traffic.gradient.payload, 4), 2 * 2 * kAll / 2);
  const PartitionState state = StateOf(SettingOf("ddp", 2, 4));
  EXPECT_EQ(state.weights, 2 * kAll);
  EXPECT_EQ(state.gradients, 4 * kAll);
  EXPECT_EQ(state.optimizer, 12 * kAll);
  EXPECT_EQ(state.secondary, 0);
}

TEST(PartitionCostsTest, ZeroPlusPlusCrossesNodesAQuarterAsMuch) {
  for (const int accumulation : {1, 4}) {
    const auto crossing = [&](const std::string& preset) {
      const PartitionTraffic traffic = TrafficOf(SettingOf(preset, 4, 8, accumulation));
      return FromNodes(traffic.forward.payload, 8) + FromNodes(traffic.backward.payload, 8) +
             FromNodes(traffic.gradient.payload, 8) + FromNodes(traffic.refresh.payload, 8);
    };
    EXPECT_DOUBLE_EQ(crossing("zero3"), accumulation * 6 * kAll * 3 / 4);
    EXPECT_DOUBLE_EQ(crossing("zeropp"), accumulation * 1.5 * kAll * 3 / 4);
    // Half a byte of each gradient and two of each weight, once a step.
    EXPECT_DOUBLE_EQ(crossing("frontier3"), 2.5 * kAll * 3 / 4);
  }
  const PartitionTraffic traffic = TrafficOf(SettingOf("zeropp", 4, 8));
  // A scale of two bytes for each block of 128.
  EXPECT_DOUBLE_EQ(FromNodes(traffic.forward.scales, 8), kAll * 2 / 128 * 3 / 4);
}

TEST(PartitionCostsTest, Frontier3KeepsWeightsOnAPair) {
  const PartitionState state = StateOf(SettingOf("frontier3", 4, 8));
  EXPECT_EQ(state.weights, 2 * kAll / 2);
  EXPECT_EQ(state.gradients, 4 * kAll / 8);
  EXPECT_EQ(state.optimizer, 12 * kAll / 32);
  const PartitionTraffic traffic = TrafficOf(SettingOf("frontier3", 4, 8, 2));
  EXPECT_EQ(traffic.forward.payload.pair, 2 * kAll / 2);
  EXPECT_EQ(traffic.forward.payload.node, 0);
}

// 20 billion parameters on nodes of 8 MI250X dies: 200 GB/s within a pair, 75 within a node, 12.5
// between nodes. Nothing is hidden.
double ExchangeSeconds(const std::string& preset, int nodes, int accumulation) {
  const LevelBytes bytes = TrafficOf(SettingOf(preset, nodes, 8, accumulation)).total();
  const double scale = 20e9 / kAll;
  return scale * (bytes.pair / 200e9 + bytes.node / 75e9 + bytes.pool / 12.5e9);
}

// The published gains (arXiv 2501.04266): ZeRO++ over ZeRO-3 1.405, three levels over ZeRO++ 1.707,
// with 384 dies; batch and accumulation are not published. One compute time is fitted to the first.
TEST(PartitionCostsTest, ThreeLevelsGainOverZeroPlusPlusAndScale) {
  for (const int accumulation : {4, 8, 16}) {
    const double zero3 = ExchangeSeconds("zero3", 48, accumulation),
                 zeropp = ExchangeSeconds("zeropp", 48, accumulation),
                 three = ExchangeSeconds("frontier3", 48, accumulation);
    EXPECT_GT(zero3, zeropp);
    EXPECT_GT(zeropp, three);
    // (compute + zero3) / (compute + zeropp) = 1.405.
    const double compute = (zero3 - 1.405 * zeropp) / 0.405;
    ASSERT_GT(compute, 0);
    EXPECT_GT((compute + zeropp) / (compute + three), 1) << accumulation;
    EXPECT_GE(zeropp / three, 1.3) << "where the links alone count";
    // From 64 dies on, with as much work for each: 0.94 is published.
    const double efficiency =
        (compute + ExchangeSeconds("frontier3", 8, accumulation)) / (compute + three);
    EXPECT_GE(efficiency, 0.94 - 0.03) << accumulation;
    EXPECT_LE(efficiency, 1 + 1e-9);
  }
}

TEST(PartitionCostsTest, VectorsAreExactAndInFloat32NothingIsCoded) {
  PartitionSetting setting = SettingOf("zero3", 1, 2);
  setting.layout.units.resize(1);
  setting.layout.units[0] = {
      "layer",
      UnitKind::kBlock,
      0,
      256,
      {{"norm", {128}, 0, 128, false}, {"matrix", {1, 128}, 128, 128, true}}};
  // One rank has the norm, the other the matrix: 512 bytes and 256.
  EXPECT_EQ(TrafficOf(setting).forward.payload.pair, (512 + 256) / 2);
  setting.bf16 = false;
  EXPECT_EQ(TrafficOf(setting).forward.payload.pair, 512);
  const PartitionState state = StateOf(setting);
  EXPECT_EQ(state.weights, 0);  // The masters are the weights.
  EXPECT_EQ(state.optimizer, 12 * 128);
}

// Its head is as large as its embedding.
TEST(PartitionCostsTest, NeitherTheHeadNorTheEmbeddingIsGatheredForBackward) {
  for (const bool tied : {false, true}) {
    PartitionSetting setting = SettingOf("zeropp", 2, 4, 3);
    const TensorLayout table{"table", {1, kElements}, 0, kElements, true};
    setting.layout.units.back() = {
        "head", UnitKind::kHead, -1, tied ? 0 : kElements,
        tied ? std::vector<TensorLayout>{} : std::vector<TensorLayout>{table}};
    setting.layout.units.insert(setting.layout.units.begin(),
                                {"embedding", UnitKind::kEmbedding, -1, kElements, {table}});
    const PartitionTraffic traffic = TrafficOf(setting);
    // A tied head gathers the embedding.
    EXPECT_EQ(FromNodes(traffic.forward.payload, 4), 3 * (kAll + 2 * kElements) / 2);
    EXPECT_EQ(traffic.backward.payload.pair + traffic.backward.payload.node, 3 * 2 * kAll * 3 / 4);
    EXPECT_EQ(StateOf(setting).secondary, 2 * kAll / 4);
  }
}

TEST(PartitionCostsTest, ErrorFeedbackIsKeptForEachHop) {
  PartitionSetting setting = SettingOf("zeropp", 2, 4);
  EXPECT_EQ(StateOf(setting).error_feedback, 0);
  setting.map.error_feedback = true;
  // In bf16: of what a rank has before the node's reduction, and before that across nodes.
  EXPECT_EQ(StateOf(setting).error_feedback, 2 * kAll + 2 * kAll / 4);
}

}  // namespace
}  // namespace longhaul::plan
