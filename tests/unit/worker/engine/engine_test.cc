#include "worker/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <numeric>

#include "ATen/Parallel.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "tests/testing/bigram_model.h"
#include "tests/testing/emulated_cuda_runtime.h"
#include "tests/unit/worker/engine/engine_training.h"
#include "worker/data/windows.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

// Presets without quantization, and maps that users write.
std::vector<std::pair<std::string, PartitionMap>> ExactMaps(bool nested, bool pairs) {
  std::vector<std::pair<std::string, PartitionMap>> maps;
  for (const char* preset : {"ddp", "zero1", "zero2", "zero3"})
    maps.emplace_back(preset, PartitionPreset(preset).value());
  if (!nested) return maps;
  maps.emplace_back("mics", PartitionMap{.weights = {Level::kNode},
                                         .gradients = {Level::kNode},
                                         .optimizer = Level::kNode});
  maps.emplace_back("hpz", PartitionMap{.weights = {Level::kPool},
                                        .secondary = Spread{Level::kNode},
                                        .gradients = {Level::kPool},
                                        .optimizer = Level::kPool});
  if (!pairs) return maps;
  maps.emplace_back("three levels", PartitionMap{.weights = {Level::kPair},
                                                 .secondary = Spread{Level::kNode},
                                                 .gradients = {Level::kNode},
                                                 .optimizer = Level::kPool});
  return maps;
}

TEST(EngineTest, PartitionsAreEqualBitForBit) {
  const std::vector<std::vector<int>> pools = {{1}, {2}, {3}, {4}, {1, 1}, {2, 2}, {2, 1}, {4, 4}};
  for (const std::vector<int>& nodes : pools) {
    const bool nested =
        std::adjacent_find(nodes.begin(), nodes.end(), std::not_equal_to<>()) == nodes.end();
    const Trained ddp = Train(nodes, "ddp", 5);
    for (const auto& [name, map] : ExactMaps(nested, nested && nodes[0] % 2 == 0)) {
      SCOPED_TRACE(absl::StrCat(name, " on ", nodes.size(), " nodes of ", nodes[0]));
      const Trained other = Train({.nodes = nodes, .partition = map, .batch = 5});
      EXPECT_EQ(ddp.losses, other.losses);
      EXPECT_EQ(ddp.norms, other.norms);
      EXPECT_EQ(ddp.parameters, other.parameters);
      EXPECT_EQ(other.last.weights_nmse, 0);
    }
  }
}

// The bits of torch's products depend on the processor. If ranks updated the same matrix, those on
// different machines would come to differ.
TEST(EngineTest, OneRankUpdatesAMatrixInEveryPartition) {
  for (const auto& [name, map] : ExactMaps(true, true)) {
    std::mutex mutex;
    std::vector<std::pair<int, int64_t>> updated;
    RunRanks(4, [&, partition = map](int, Communicator& communicator) {
      Engine::Options options = MakeOptions(Decoder(), partition, &communicator);
      options.site.link.ranks_of_node = {2, 2};
      options.plan.optimizer = MuonOptions{};
      const auto engine = Engine::Create(std::move(options));
      ASSERT_TRUE(engine.ok()) << engine.status();
      const std::lock_guard lock(mutex);
      for (const UnitSubgroup& subgroup : (*engine)->plan().subgroups()) {
        if (subgroup.shape.matrix()) updated.emplace_back(subgroup.unit, subgroup.range.first);
      }
    });
    std::sort(updated.begin(), updated.end());
    EXPECT_EQ(std::adjacent_find(updated.begin(), updated.end()), updated.end()) << name;
    EXPECT_EQ(static_cast<int64_t>(updated.size()), CountMatrices(Decoder()->layout()).matrices)
        << name;
  }
}

TEST(EngineTest, PartitionsAreEqualBitForBitWithMuon) {
  for (const MuonPrecision iterations : {MuonPrecision::kFloat32, MuonPrecision::kBfloat16}) {
    const MuonOptions muon{.weight_decay = 0.1, .iterations = iterations, .adamw_rate = 0.5};
    for (const std::vector<int>& nodes :
         {std::vector<int>{1}, {2}, {4}, {2, 2}, {2, 1}, {5}, {32}}) {
      const auto train = [&](const PartitionMap& map) {
        return Train({.nodes = nodes, .partition = map, .batch = 5, .optimizer = muon});
      };
      const Trained ddp = train({});
      const bool nested = nodes.size() == 1 || nodes[0] == nodes[1];
      for (const auto& [name, map] : ExactMaps(nested, nested && nodes[0] % 2 == 0)) {
        SCOPED_TRACE(absl::StrCat(name, " on ", nodes.size(), " nodes of ", nodes[0]));
        const Trained other = train(map);
        EXPECT_EQ(ddp.losses, other.losses);
        EXPECT_EQ(ddp.parameters, other.parameters);
      }
    }
  }
}

TEST(EngineTest, QuantizedPartitionsTrainWithMuon) {
  const auto train = [](const char* preset) {
    return Train({.nodes = {2, 2},
                  .partition = PartitionPreset(preset).value(),
                  .batch = 4,
                  .compute = at::kBFloat16,
                  .optimizer = MuonOptions{}});
  };
  const Trained exact = train("zero3");
  for (const char* preset : {"zeropp", "frontier3"}) {
    const Trained quantized = train(preset);
    for (size_t step = 0; step < exact.losses.size(); ++step)
      EXPECT_NEAR(quantized.losses[step], exact.losses[step], 0.02 * exact.losses[step]) << preset;
  }
}

TEST(EngineTest, RefusesMuonWhereItWouldUpdateNothing) {
  Engine::Options options = MakeOptions(std::make_unique<BigramModel>(kVocab), "ddp", nullptr);
  options.plan.optimizer = MuonOptions{};
  const absl::Status status = Engine::Create(std::move(options)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("no hidden matrix"));
}

TEST(EngineTest, PartitionsAreEqualWithTiedEmbeddings) {
  const auto train = [](const PartitionMap& map) {
    return Train({.nodes = {2, 2}, .partition = map, .batch = 3, .tied = true});
  };
  const Trained ddp = train({});
  for (const auto& [name, map] : ExactMaps(true, true))
    EXPECT_EQ(ddp.parameters, train(map).parameters) << name;
}

// Those that reduce at the same moment.
TEST(EngineTest, PartitionsAreEqualWhenTheyAccumulate) {
  const auto train = [](std::string_view preset, int accumulation) {
    return Train({.nodes = {2, 2},
                  .partition = PartitionPreset(preset).value(),
                  .batch = 12,
                  .accumulation = accumulation});
  };
  const Trained zero1 = train("zero1", 3), zero2 = train("zero2", 3), once = train("zero1", 1);
  EXPECT_EQ(zero1.parameters, train("ddp", 3).parameters);
  EXPECT_EQ(zero2.parameters, train("zero3", 3).parameters);
  for (const Trained* other : {&zero1, &zero2}) {
    for (size_t step = 0; step < once.losses.size(); ++step) {
      EXPECT_NEAR(other->losses[step], once.losses[step], 1e-5 * once.losses[step]);
      EXPECT_NEAR(other->norms[step], once.norms[step], 1e-5 * once.norms[step]);
    }
  }
}

// AdamW does not see the scale of gradients; their norm does.
TEST(EngineTest, EveryPartitionHasTheMeanGradient) {
  const Trained expected = Train({1}, "ddp", 12);
  for (const int accumulation : {1, 3}) {
    for (const std::vector<int>& nodes : {std::vector<int>{2, 2}, {4, 4}}) {
      const auto train = [&](const PartitionMap& map) {
        return Train({.nodes = nodes,
                      .partition = map,
                      .batch = 12,
                      .accumulation = accumulation,
                      .steps = 1});
      };
      for (const auto& [name, map] : ExactMaps(true, true))
        EXPECT_NEAR(train(map).norms[0], expected.norms[0], 1e-5 * expected.norms[0]) << name;
      for (const char* preset : {"zeropp", "frontier3"}) {
        const double norm = train(PartitionPreset(preset).value()).norms[0];
        EXPECT_NEAR(norm, expected.norms[0], 0.03 * expected.norms[0]) << preset;
        EXPECT_NE(norm, expected.norms[0]) << preset;
      }
    }
  }
}

TEST(EngineTest, RecomputingChangesNoBit) {
  for (const char* preset : {"ddp", "zero3"}) {
    const auto train = [&](bool recompute) {
      return Train({.nodes = {2},
                    .partition = PartitionPreset(preset).value(),
                    .batch = 4,
                    .recompute = recompute});
    };
    EXPECT_EQ(train(true).parameters, train(false).parameters) << preset;
  }
}

// Shares differ in size, and at 4 ranks two of them are empty.
TEST(EngineTest, RanksTakeTheSameStepAsOneRank) {
  const Trained one = Train({1}, "ddp", 2);
  for (const std::vector<int>& nodes : {std::vector<int>{2}, {4}, {2, 2}, {1, 3}}) {
    for (const char* preset : {"zero1", "zero3"}) {
      const Trained many = Train(nodes, preset, 2);
      for (size_t step = 0; step < one.losses.size(); ++step) {
        EXPECT_NEAR(many.losses[step], one.losses[step], 1e-5 * one.losses[step]);
        EXPECT_NEAR(many.norms[step], one.norms[step], 1e-5 * one.norms[step]);
      }
    }
  }
}

TEST(EngineTest, QuantizedPartitionsStayNearTheExactOnesAndSayHowFar) {
  const Trained exact = Train({2, 2}, "zero3", 4);
  for (const char* preset : {"zeropp", "frontier3"}) {
    const Trained quantized = Train({2, 2}, preset, 4);
    for (size_t step = 0; step < exact.losses.size(); ++step)
      EXPECT_NEAR(quantized.losses[step], exact.losses[step], 0.02 * exact.losses[step]) << preset;
    EXPECT_GT(quantized.last.weights_nmse, 1e-6);
    EXPECT_LT(quantized.last.weights_nmse, 1e-3);
    EXPECT_GT(quantized.last.gradients_nmse, 1e-3);
    EXPECT_LT(quantized.last.gradients_nmse, 0.05);
  }
}

// The kernels of a device give the host's bytes, so training is the same.
TEST(EngineTest, ADevicesKernelsQuantizeAsTheHost) {
  const testing_support::EmulatedSegmentKernels kernels;
  for (const char* preset : {"zeropp", "frontier3"}) {
    PartitionMap map = PartitionPreset(preset).value();
    map.error_feedback = true;
    const Trained host = Train({.nodes = {2, 2}, .partition = map, .batch = 4, .steps = 2});
    const Trained device =
        Train({.nodes = {2, 2}, .partition = map, .batch = 4, .steps = 2, .kernels = &kernels});
    EXPECT_EQ(host.losses, device.losses) << preset;
    EXPECT_EQ(host.parameters, device.parameters) << preset;
    EXPECT_EQ(host.last.gradients_nmse, device.last.gradients_nmse) << preset;
  }
}

TEST(EngineTest, PartitionsComputeInBfloat16) {
  for (const char* preset : {"ddp", "zero1", "zero2", "zero3", "zeropp", "frontier3"}) {
    const PartitionMap map = PartitionPreset(preset).value();
    const Trained wide = Train({.nodes = {2, 2}, .partition = map, .batch = 4});
    const Trained narrow =
        Train({.nodes = {2, 2}, .partition = map, .batch = 4, .compute = at::kBFloat16});
    for (size_t step = 0; step < wide.losses.size(); ++step)
      EXPECT_NEAR(narrow.losses[step], wide.losses[step], 0.02 * wide.losses[step]) << preset;
  }
}

TEST(EngineTest, RefusesWhatThePoolCannotDo) {
  RunRanks(3, [](int, Communicator& communicator) {
    Engine::Options options = MakeOptions(Decoder(), "frontier3", &communicator);
    const absl::Status pairs = Engine::Create(std::move(options)).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(pairs));
    EXPECT_THAT(std::string(pairs.message()), testing::HasSubstr("3 ranks, which are no pairs"));
    options = MakeOptions(Decoder(), "zeropp", &communicator);
    options.site.link.ranks_of_node = {1, 2};
    const absl::Status uneven = Engine::Create(std::move(options)).status();
    EXPECT_THAT(std::string(uneven.message()), testing::HasSubstr("nodes differ in size"));
    options = MakeOptions(Decoder(), "zero3", &communicator);
    options.site.link.ranks_of_node = {2, 2};
    EXPECT_TRUE(absl::IsInvalidArgument(Engine::Create(std::move(options)).status()));
  });
}

// What every rank holds between two steps, in bytes of an element of the model; of the secondary
// copy, of the block, since backward gathers neither the embedding nor the head.
TEST(EngineTest, StateIsSplitAsTheMapSays) {
  struct Case {
    const char* preset;
    double weights, secondary, gradients, optimizer;
  } cases[] = {{"ddp", 2, 0, 4, 12},
               {"zero1", 2, 0, 4, 1.5},
               {"zero2", 2, 0, 0.5, 1.5},
               {"zero3", 0.25, 0, 0.5, 1.5},
               {"zeropp", 0.25, 0.5, 0.5, 1.5},
               {"frontier3", 1, 0.25, 1, 1.5}};
  for (const Case& expected : cases) {
    RunRanks(8, [&](int, Communicator& communicator) {
      auto model = TransformerLm::Create({.layers = 1,
                                          .dim = 256,
                                          .heads = 2,
                                          .kv_heads = 2,
                                          .ff_dim = 512,
                                          .context = kContext,
                                          .vocab = 512},
                                         at::kCPU);
      Engine::Options options = MakeOptions(*std::move(model), expected.preset, &communicator);
      options.plan.precision = ComputePrecision::kBfloat16;
      options.site.link.ranks_of_node = {4, 4};
      const auto engine = Engine::Create(std::move(options)).value();
      const StateBytes bytes = engine->state_bytes();
      const auto elements = static_cast<double>(engine->layout().elements());
      const auto block = static_cast<double>(engine->layout().units[1].elements);
      // Blocks, vectors and scales.
      const double tolerance = 0.02;
      EXPECT_NEAR(bytes.weights / elements, expected.weights, tolerance) << expected.preset;
      EXPECT_NEAR(bytes.secondary / block, expected.secondary, tolerance) << expected.preset;
      EXPECT_NEAR(bytes.gradients / elements, expected.gradients, tolerance) << expected.preset;
      EXPECT_NEAR(bytes.optimizer / elements, expected.optimizer, 2 * tolerance) << expected.preset;
    });
  }
}

TEST(EngineTest, StateGoesOnInAnotherPartitionOnOtherRanks) {
  Saved middle;
  TrainHalf({2, 2}, "zero3", false, middle);
  EXPECT_EQ(middle.updates, 3);
  Saved expected = middle;
  const std::vector<double> losses = TrainHalf({2, 2}, "zero3", true, expected);
  for (const char* preset : {"ddp", "zero1", "zero2", "zero3"}) {
    Saved end = middle;
    EXPECT_EQ(TrainHalf({2, 2}, preset, true, end), losses) << preset;
    EXPECT_EQ(end.masters, expected.masters) << preset;
    EXPECT_EQ(end.first, expected.first) << preset;
    EXPECT_EQ(end.second, expected.second) << preset;
    for (const std::vector<int>& nodes : {std::vector<int>{1}, {3}}) {
      end = middle;
      const std::vector<double> others = TrainHalf(nodes, preset, true, end);
      for (size_t i = 0; i < losses.size(); ++i)
        EXPECT_NEAR(others[i], losses[i], 1e-5 * losses[i]) << preset;
    }
  }
  // One run without a break is the same.
  const Trained whole =
      Train({.nodes = {2, 2}, .partition = *PartitionPreset("zero3"), .batch = 4, .steps = 6});
  EXPECT_EQ(std::vector<double>(whole.losses.begin() + 3, whole.losses.end()), losses);
}

TEST(EngineTest, SameInputsGiveTheSameBits) {
  EXPECT_EQ(Train({2}, "ddp", 3).parameters, Train({2}, "ddp", 3).parameters);
}

TEST(EngineTest, PublishSpreadsWhatOwnersWrote) {
  for (const char* preset : {"ddp", "zero1", "zero3", "zeropp", "frontier3"}) {
    SCOPED_TRACE(preset);
    RunRanks(4, [&](int rank, Communicator& communicator) {
      Engine::Options options = MakeOptions(Decoder(), preset, &communicator);
      options.site.link.ranks_of_node = {2, 2};
      const auto engine = Engine::Create(std::move(options)).value();
      const int head = static_cast<int>(engine->layout().units.size()) - 1;
      const ElementRange& owned = engine->plan().owned(head);
      const std::vector<int64_t> tokens = Tokens(1, {rank, 1});
      ASSERT_TRUE(LossSum(*engine, {1, kContext, tokens}).ok());
      // A head of zeros predicts nothing.
      ASSERT_TRUE(engine->Write(head, owned.first, std::vector<float>(owned.count)).ok());
      ASSERT_TRUE(engine->Publish({head}).ok());
      EXPECT_NEAR(LossSum(*engine, {1, kContext, tokens}).value(), 4 * kContext * std::log(kVocab),
                  1e-3);
      // Backward, too, computes with what was published.
      ASSERT_TRUE(Step(*engine, {1, kContext, tokens}, 4 * kContext, 0.01).ok());
    });
  }
}

TEST(EngineTest, TrainsAnyModelOfTheSeam) {
  const auto engine =
      Engine::Create(MakeOptions(std::make_unique<BigramModel>(kVocab), "ddp", nullptr)).value();
  const std::vector<int64_t> tokens = Tokens(1, {0, 4});
  const double first = LossSum(*engine, {4, kContext, tokens}).value();
  EXPECT_NEAR(first, 4 * kContext * std::log(kVocab), 1e-4);
  for (int step = 0; step < 200; ++step)
    ASSERT_TRUE(Step(*engine, {4, kContext, tokens}, 4 * kContext, 0.05).ok());
  EXPECT_LT(LossSum(*engine, {4, kContext, tokens}).value(), 0.6 * first);
}

TEST(EngineTest, ComputesInBfloat16OverFloat32Parameters) {
  for (const Blocks blocks : {Blocks::kFused, Blocks::kAutograd}) {
    Engine::Options options = MakeOptions(Decoder(), "ddp", nullptr);
    options.plan.precision = ComputePrecision::kBfloat16;
    options.plan.blocks = blocks;
    const auto narrow = Engine::Create(std::move(options)).value();
    const auto wide = Engine::Create(MakeOptions(Decoder(), "ddp", nullptr)).value();
    for (int step = 1; step <= 10; ++step) {
      const std::vector<int64_t> tokens = Tokens(1, {0, 4});
      const double expected = Step(*wide, {4, kContext, tokens}, 4 * kContext, 0.01)->loss_sum;
      EXPECT_NEAR(Step(*narrow, {4, kContext, tokens}, 4 * kContext, 0.01)->loss_sum, expected,
                  0.03 * expected);
    }
  }
}

// The losses of steps, each on tokens of its own.
std::vector<double> Curve(Blocks blocks, int steps) {
  Engine::Options options = MakeOptions(Decoder(), "ddp", nullptr);
  options.plan.blocks = blocks;
  const auto engine = Engine::Create(std::move(options)).value();
  std::vector<double> losses;
  for (int step = 1; step <= steps; ++step) {
    const std::vector<int64_t> tokens = Tokens(step % 5, {0, 4});
    losses.push_back(Step(*engine, {4, kContext, tokens}, 4 * kContext, 2e-3)->loss_sum);
  }
  return losses;
}

TEST(EngineTest, FusedBlocksTrainAsAutogradDoes) {
  const std::vector<double> fused = Curve(Blocks::kFused, 40),
                            autograd = Curve(Blocks::kAutograd, 40);
  EXPECT_NE(fused, autograd);  // Two ways of computing.
  for (size_t i = 0; i < fused.size(); ++i)
    EXPECT_NEAR(fused[i], autograd[i], 1e-3 * autograd[i]) << "step " << i;
  EXPECT_LT(fused.back(), 0.95 * fused.front());
}

TEST(EngineTest, RefusesFusedBlocksThatAModelLacks) {
  Engine::Options options = MakeOptions(std::make_unique<BigramModel>(kVocab), "ddp", nullptr);
  options.plan.blocks = Blocks::kFused;
  EXPECT_EQ(Engine::Create(std::move(options)).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(EngineTest, ALostPeerEndsTheStep) {
  RunRanks(2, [](int rank, Communicator& communicator) {
    const auto engine = Engine::Create(MakeOptions(Decoder(), "ddp", &communicator)).value();
    if (rank == 1) return communicator.Abort("rank 1 stops");
    const std::vector<int64_t> tokens = Tokens(1, {0, 1});
    EXPECT_EQ(Step(*engine, {1, kContext, tokens}, 2 * kContext, 0.01).status().code(),
              absl::StatusCode::kUnavailable);
  });
}

// On one rank's share alone: all ranks skip the step, and go on.
TEST(EngineTest, AGradientThatIsNotFiniteSkipsTheStepOnAllRanks) {
  const std::vector<std::pair<std::string, OffloadPlan>> cases = {
      {"ddp", {}}, {"zero1", {}}, {"zero3", {}}, {"zero3", Offload({2, 0.3}, true)}};
  // Of the first rank, by case.
  std::vector<Parameters> ends;
  for (const auto& [preset, offload] : cases) {
    SCOPED_TRACE(preset);
    RunRanks(2, [&, preset = preset, offload = offload](int rank, Communicator& communicator) {
      Engine::Options options = MakeOptions(Decoder(), preset, &communicator);
      options.plan.offload = offload;
      const auto engine = Engine::Create(std::move(options)).value();
      const int head = static_cast<int>(engine->layout().units.size()) - 1;
      const ElementRange& owned = engine->plan().owned(head);
      const std::vector<int64_t> tokens = Tokens(1, {rank, 1});
      const auto step = [&] { return Step(*engine, {1, kContext, tokens}, 2 * kContext, 0.01); };
      ASSERT_TRUE(step().ok());
      std::vector<float> good(owned.count), bad(owned.count);
      ASSERT_TRUE(engine->Read(head, owned.first, absl::MakeSpan(good)).ok());
      bad = good;
      if (rank == 1) bad.back() = std::numeric_limits<float>::infinity();
      const auto write = [&](const std::vector<float>& values) {
        ASSERT_TRUE(engine->Write(head, owned.first, values).ok());
        ASSERT_TRUE(engine->Publish({head}).ok());
      };
      write(bad);
      const Parameters before = ReadAll(*engine);
      for (int skip = 0; skip < 3; ++skip) {
        const auto skipped = step();
        ASSERT_TRUE(skipped.ok()) << skipped.status();
        EXPECT_TRUE(skipped->skipped);
      }
      EXPECT_EQ(ReadAll(*engine), before);
      EXPECT_EQ(engine->updates(), 1);
      write(good);
      const auto again = step();
      ASSERT_TRUE(again.ok());
      EXPECT_FALSE(again->skipped);
      EXPECT_EQ(engine->updates(), 2);
      if (rank == 0) ends.push_back(ReadAll(*engine));
    });
  }
  // Gradients and state that were on their way when a step was skipped leave nothing.
  ASSERT_EQ(ends.size(), 4u);
  EXPECT_EQ(ends[3], ends[2]);
}

TEST(EngineTest, StopsWhenTooManyGradientsInARowAreNotFinite) {
  const auto engine = Engine::Create(MakeOptions(Decoder(), "ddp", nullptr)).value();
  ASSERT_TRUE(engine->Write(1, 0, {std::numeric_limits<float>::infinity()}).ok());
  const Parameters before = ReadAll(*engine);
  const std::vector<int64_t> tokens = Tokens(1, {0, 1});
  const auto step = [&] { return Step(*engine, {1, kContext, tokens}, kContext, 0.01).status(); };
  for (int skip = 1; skip < Engine::kSkipsInARowMax; ++skip) ASSERT_TRUE(step().ok());
  const absl::Status last = step();
  EXPECT_EQ(last.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(last.message()), testing::HasSubstr("10 steps in a row"));
  EXPECT_EQ(ReadAll(*engine), before);
}

// Element i of a unit is unit + i / 1024.
class RampParameters : public InitialParameters {
 public:
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const override {
    if (refuses) return absl::DataLossError("damaged");
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(unit) + static_cast<float>(offset + i) / 1024;
    elements += static_cast<int64_t>(out.size());
    return absl::OkStatus();
  }
  bool refuses = false;
  mutable std::atomic<int64_t> elements = 0;
};

TEST(EngineTest, EachOwnerReadsItsInitialParametersAndNoOther) {
  for (const char* preset : {"ddp", "zero1", "zero3"}) {
    const auto initial = std::make_shared<RampParameters>();
    RunRanks(3, [&](int, Communicator& communicator) {
      Engine::Options options = MakeOptions(Decoder(), preset, &communicator);
      options.initial = initial;
      const auto engine = Engine::Create(std::move(options));
      ASSERT_TRUE(engine.ok()) << engine.status();
      const ElementRange& owned = (*engine)->plan().owned(2);
      std::vector<float> values(owned.count);
      ASSERT_TRUE((*engine)->Read(2, owned.first, absl::MakeSpan(values)).ok());
      if (owned.count > 0) {
        EXPECT_EQ(values[0], 2 + static_cast<float>(owned.first) / 1024);
      }
    });
    EXPECT_EQ(initial->elements, Decoder()->layout().elements()) << preset;
  }
}

TEST(EngineTest, ARankThatCannotReadLeavesNoOtherWaiting) {
  const auto whole = std::make_shared<RampParameters>(),
             damaged = std::make_shared<RampParameters>();
  damaged->refuses = true;
  RunRanks(2, [&](int rank, Communicator& communicator) {
    Engine::Options options = MakeOptions(Decoder(), "zero1", &communicator);
    options.initial = rank == 1 ? damaged : whole;
    const absl::Status status = Engine::Create(std::move(options)).status();
    EXPECT_EQ(status.code(),
              rank == 1 ? absl::StatusCode::kDataLoss : absl::StatusCode::kUnavailable);
  });
}

// A rank that waits for one that is gone learns the operation, the unit, and which ranks are meant.
TEST(EngineTest, ALostRankIsNamedWithItsNodeTheOperationAndTheUnit) {
  std::mutex mutex;
  std::vector<std::string> errors;
  RunRanks(4, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    Engine::Options options = MakeOptions(Decoder(), "zero3", &communicator);
    options.site.link.ranks_of_node = {2, 2};
    const auto engine = Engine::Create(std::move(options)).value();
    const std::vector<int64_t> tokens = Tokens(1, {.first = rank, .count = 1});
    if (rank == 3) return communicator.Abort("rank 3 has died");
    absl::Status status;
    for (int step = 0; step < 3 && status.ok(); ++step)
      status = Step(*engine, {1, kContext, tokens}, 4 * kContext, 0.01).status();
    EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsCancelled(status)) << status;
    const std::lock_guard lock(mutex);
    errors.emplace_back(status.message());
  });
  ASSERT_EQ(errors.size(), 3u);
  for (const std::string& error : errors) {
    EXPECT_THAT(error, testing::HasSubstr("gathering ")) << "the unit";
    EXPECT_THAT(error, testing::HasSubstr("all-gather")) << "the operation";
    EXPECT_THAT(error, testing::ContainsRegex("rank.* on node [01]"));
  }
}

}  // namespace
}  // namespace longhaul
