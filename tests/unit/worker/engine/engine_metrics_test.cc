// What a model measures besides its loss, through the engine.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "ATen/TensorOperators.h"
#include "ATen/ops/argmax.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/scalar_tensor.h"
#include "ATen/ops/stack.h"
#include "common/base/share.h"
#include "tests/testing/bigram_model.h"
#include "tests/unit/worker/engine/engine_training.h"
#include "worker/model/language_batch.h"

namespace longhaul {
namespace {

TEST(EngineMetricsTest, LossSumCoversAllRanksAndChangesNothing) {
  const std::vector<int64_t> all = Tokens(1, {0, 3});
  const auto alone = Engine::Create(MakeOptions(Decoder(), "ddp", nullptr)).value();
  const Parameters before = ReadAll(*alone);
  const double expected = LossSum(*alone, {3, kContext, all}).value();
  EXPECT_EQ(ReadAll(*alone), before);
  EXPECT_NEAR(expected, 3 * kContext * std::log(kVocab), 1);
  RunRanks(4, [&](int rank, Communicator& communicator) {
    const auto engine = Engine::Create(MakeOptions(Decoder(), "ddp", &communicator)).value();
    const Share share = ShareOf(3, rank, 4);
    EXPECT_NEAR(LossSum(*engine, {share.count, kContext, Tokens(1, share)}).value(), expected,
                1e-4);
  });
}

// Measures twice its loss, which must not be differentiated, too, and counts.
class CountingBigram : public BigramModel {
 public:
  using BigramModel::BigramModel;
  std::vector<std::string> metrics() const override {
    return {"loss", "twice", "correct", "targets"};
  }
  at::Tensor Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                     const StagedBatch& batch) const override {
    const at::Tensor result = BigramModel::Forward(unit, weights, x, batch);
    if (unit == 0) return result;
    const at::Tensor& targets = batch.tensors[kTargets];
    const at::Tensor correct = at::argmax(x + weights[0], -1).eq(targets).sum();
    return at::cat(
        {result, 2 * result,
         at::stack({correct.to(at::kFloat), at::scalar_tensor(targets.numel(), at::kFloat)})});
  }
};

struct Measured {
  std::vector<double> sums;
  Parameters parameters;
};

Measured TrainBigram(std::unique_ptr<Model> (*make)(), int ranks, const char* preset,
                     int accumulation, bool recompute) {
  Measured measured;
  std::mutex mutex;
  RunRanks(ranks, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    Engine::Options options = MakeOptions(make(), preset, &communicator);
    options.plan.accumulation = accumulation;
    options.plan.recompute = recompute;
    const auto engine = Engine::Create(std::move(options)).value();
    const Share share = ShareOf(5, rank, ranks);
    for (int step = 1; step <= 30; ++step) {
      const std::vector<int64_t> tokens = Tokens(1, share);
      ASSERT_TRUE(Step(*engine, {share.count, kContext, tokens}, 5 * kContext, 0.05).ok());
    }
    const std::vector<int64_t> tokens = Tokens(1, share);
    const TokenBatch held_out{share.count, kContext, tokens};
    const auto sums = engine->Evaluate(StageTokens(held_out, at::kCPU));
    ASSERT_TRUE(sums.ok()) << sums.status();
    const auto copied = engine->CopyWeights();
    auto beside = engine->EvaluateBeside(copied.value(), StageTokens(held_out, at::kCPU));
    ASSERT_TRUE(beside.ok() && engine->Sum(absl::MakeSpan(*beside)).ok());
    EXPECT_EQ(*beside, *sums);
    const std::lock_guard lock(mutex);
    measured.sums = *sums;
    if (measured.parameters.empty()) measured.parameters = Zeros(*engine);
    ReadOwned(*engine, measured.parameters);
  });
  return measured;
}

template <typename Made>
std::unique_ptr<Model> MakeModel() {
  return std::make_unique<Made>(kVocab);
}

TEST(EngineMetricsTest, AModelIsTrainedOnItsFirstMetricAndEvaluatedOnAll) {
  for (const char* preset : {"ddp", "zero3"}) {
    for (const int ranks : {1, 3}) {
      for (const bool recompute : {false, true}) {
        const Measured loss = TrainBigram(MakeModel<BigramModel>, ranks, preset, 2, recompute);
        const Measured all = TrainBigram(MakeModel<CountingBigram>, ranks, preset, 2, recompute);
        EXPECT_EQ(all.parameters, loss.parameters) << preset << " on " << ranks;
        ASSERT_EQ(loss.sums.size(), 1u);
        ASSERT_EQ(all.sums.size(), 4u);
        EXPECT_EQ(all.sums[0], loss.sums[0]);
        EXPECT_EQ(all.sums[1], 2 * loss.sums[0]);
        // By chance it would predict one of eleven.
        EXPECT_GT(all.sums[2], 0.25 * 5 * kContext);
        EXPECT_LE(all.sums[2], 5 * kContext);
        EXPECT_EQ(all.sums[3], 5 * kContext);
      }
    }
  }
}

}  // namespace
}  // namespace longhaul
