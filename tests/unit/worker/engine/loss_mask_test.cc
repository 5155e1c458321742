// A loss on some of a batch's targets, through the engine.
#include <gtest/gtest.h>

#include <cmath>

#include "ATen/Parallel.h"
#include "ATen/TensorOperators.h"
#include "ATen/ops/embedding.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "common/base/share.h"
#include "tests/testing/bigram_model.h"
#include "tests/unit/worker/engine/engine_training.h"
#include "torch/csrc/autograd/autograd.h"

namespace longhaul {
namespace {

// Ranks and micro-batches whose shares count different numbers of targets, or none.
TEST(LossMaskTest, ALossMaskDividesByWhatThePoolCounts) {
  for (const int64_t batch : {1, 5, 6}) {
    const Trained one = Train({.batch = batch, .masked = true, .blocks = Blocks::kAutograd});
    for (const std::vector<int>& nodes : {std::vector<int>{1}, {2}, {3}, {2, 2}}) {
      for (const int accumulation : {1, 2, 3}) {
        SCOPED_TRACE(absl::StrCat("batch ", batch, ", ", nodes.size(), " nodes of ", nodes[0],
                                  ", accumulation ", accumulation));
        TrainingRun run{
            .nodes = nodes, .batch = batch, .accumulation = accumulation, .masked = true};
        const Trained ddp = Train(run);
        for (size_t step = 0; step < one.losses.size(); ++step) {
          EXPECT_NEAR(ddp.losses[step], one.losses[step], 2e-5 * one.losses[step] + 1e-12);
          EXPECT_NEAR(ddp.norms[step], one.norms[step], 1e-4 * one.norms[step] + 1e-12);
        }
        for (const char* preset : {"zero2", "zero3"}) {
          run.partition = PartitionPreset(preset).value();
          if (accumulation > 1 && nodes[0] * nodes.size() > 1) continue;  // Sums in another order.
          EXPECT_EQ(ddp.parameters, Train(run).parameters) << preset;
        }
      }
    }
  }
}

// The mean over the counted targets of the whole pool, and its gradient, by torch alone.
TEST(LossMaskTest, AMaskedStepIsThatOfPlainTorch) {
  constexpr int64_t kBatch = 4;
  const std::vector<int64_t> tokens = Tokens(1, {0, kBatch}), mask = LossMask(1, {0, kBatch});
  const int64_t targets = TargetsOf(1, kBatch);
  const auto tensor = [](const std::vector<int64_t>& values, int64_t width) {
    return at::from_blob(const_cast<int64_t*>(values.data()), {kBatch, width}, at::kLong).clone();
  };
  const at::Tensor all = tensor(tokens, kContext + 1);
  const at::Tensor table = at::zeros({kVocab, kVocab}).requires_grad_();
  const at::Tensor bias = at::zeros({kVocab}).requires_grad_();
  const at::Tensor log_p =
      at::log_softmax(at::embedding(table, all.narrow(1, 0, kContext)) + bias, -1);
  const at::Tensor at_target = log_p.gather(-1, all.narrow(1, 1, kContext).unsqueeze(-1));
  const at::Tensor sum = -(at_target.squeeze(-1) * tensor(mask, kContext)).sum();
  const auto gradients = torch::autograd::grad({sum / static_cast<double>(targets)}, {table, bias});
  const double norm =
      std::sqrt((gradients[0].square().sum() + gradients[1].square().sum()).item<double>());
  for (const int ranks : {1, 2}) {
    for (const int accumulation : {1, 2}) {
      RunRanks(ranks, [&](int rank, Communicator& communicator) {
        Engine::Options options =
            MakeOptions(std::make_unique<BigramModel>(kVocab), "ddp", &communicator);
        options.plan.accumulation = accumulation;
        const auto engine = Engine::Create(std::move(options)).value();
        const Share share = ShareOf(kBatch, rank, ranks);
        const std::vector<int64_t> mine = Tokens(1, share), counts = LossMask(1, share);
        const TokenBatch batch{share.count, kContext, mine, {}, counts};
        EXPECT_NEAR(LossSum(*engine, batch).value(), sum.item<double>(), 1e-5 * sum.item<double>());
        const auto result = Step(*engine, batch, targets, 0.01);
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_NEAR(result->loss_sum, sum.item<double>(), 1e-5 * sum.item<double>());
        EXPECT_NEAR(result->gradient_norm, norm, 1e-5 * norm);
      });
    }
  }
}

TEST(LossMaskTest, AStepThatCountsNoTargetHasAZeroGradient) {
  for (const Blocks blocks : {Blocks::kFused, Blocks::kAutograd}) {
    RunRanks(2, [&](int rank, Communicator& communicator) {
      at::set_num_threads(1);
      Engine::Options options = MakeOptions(Decoder(), "zeropp", &communicator);
      options.site.link.ranks_of_node = {1, 1};
      options.plan.blocks = blocks;
      const auto engine = Engine::Create(std::move(options)).value();
      const std::vector<int64_t> tokens = Tokens(1, {rank, 1}), none(kContext, 0);
      const TokenBatch batch{1, kContext, tokens, {}, none};
      const auto result = Step(*engine, batch, 0, 0.01);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_FALSE(result->skipped);
      EXPECT_EQ(result->loss_sum, 0);
      EXPECT_EQ(result->gradient_norm, 0);
      EXPECT_TRUE(std::isfinite(LossSum(*engine, {1, kContext, tokens}).value()));
    });
  }
}

}  // namespace
}  // namespace longhaul
