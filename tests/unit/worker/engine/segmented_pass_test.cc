#include "worker/engine/segmented_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ATen/Parallel.h"
#include "ATen/TensorOperators.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/from_blob.h"
#include "c10/core/Allocator.h"
#include "c10/util/ThreadLocalDebugInfo.h"
#include "tests/golden/engine/golden_file.h"
#include "tests/testing/random_tensor.h"
#include "tests/testing/single_rank.h"
#include "worker/engine/unit_pass.h"
#include "worker/model/initialization.h"
#include "worker/model/language_batch.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

// A tiny decoder whose parameters, loss and gradients were made by PyTorch
// (tests/golden/engine/make_golden.py).
struct GoldenDecoder {
  explicit GoldenDecoder(const std::string& name)
      : file(name), tokens(file.Get<int64_t>("tokens")) {
    const auto s = file.Get<int64_t>("shape");
    const TransformerShape shape{.layers = s[0],
                                 .dim = s[1],
                                 .heads = s[2],
                                 .kv_heads = s[3],
                                 .ff_dim = s[4],
                                 .context = s[5],
                                 .vocab = s[6],
                                 .qk_norm = file.Get<int>("qk_norm")[0] != 0,
                                 .tie_embeddings = file.Get<int>("tied")[0] != 0};
    model = TransformerLm::Create(shape, at::kCPU).value();
    const at::Tensor all = at::from_blob(tokens.data(), {3, shape.context + 1}, at::kLong);
    batch = {all.narrow(1, 0, shape.context), all.narrow(1, 1, shape.context)};
  }

  GoldenFile file;
  std::vector<int64_t> tokens;
  std::unique_ptr<TransformerLm> model;
  LanguageBatch batch;
};

// The golden parameters.
void Fill(const GoldenDecoder& golden, SingleRank& rank) {
  const std::vector<float> values = golden.file.Get("parameters");
  size_t offset = 0;
  for (int unit = 0; unit < static_cast<int>(rank.model.layout().units.size()); ++unit) {
    const int64_t elements = rank.model.layout().units[unit].elements;
    rank.Write(unit, absl::MakeSpan(values).subspan(offset, elements));
    offset += elements;
  }
  EXPECT_EQ(offset, values.size());
}

std::vector<float> Flatten(const Model& model, const FlatGradients& gradients) {
  std::vector<float> all;
  for (int unit = 0; unit < static_cast<int>(model.layout().units.size()); ++unit) {
    const at::Tensor& flat = gradients.unit(unit);
    all.insert(all.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  return all;
}

class SegmentedPassTest : public testing::TestWithParam<const char*> {
 protected:
  SegmentedPassTest() { at::set_num_threads(1); }
};

TEST_P(SegmentedPassTest, EqualsPyTorch) {
  const GoldenDecoder golden(GetParam());
  for (const bool recompute : {false, true}) {
    SingleRank rank(*golden.model, at::kFloat);
    Fill(golden, rank);
    FlatGradients gradients = rank.MakeGradients();
    std::vector<int> finished;
    const double loss =
        *rank.ForwardBackward(golden.batch, {.recompute = recompute}, gradients, [&](int unit) {
          gradients.Finish(unit);
          finished.push_back(unit);
          return absl::OkStatus();
        });
    const double expected_loss = golden.file.Get<double>("loss_sum")[0];
    EXPECT_NEAR(loss, expected_loss, 1e-5 * expected_loss);
    EXPECT_EQ(rank.ForwardOnly(golden.batch), loss);
    EXPECT_THAT(finished, testing::ElementsAre(3, 2, 1, 0));
    const std::vector<float> actual = Flatten(rank.model, gradients),
                             expected = golden.file.Get("gradients");
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i])))
          << "element " << i;
    }
  }
}

TEST_P(SegmentedPassTest, ScalesTheGradient) {
  const GoldenDecoder golden(GetParam());
  SingleRank rank(*golden.model, at::kFloat);
  Fill(golden, rank);
  FlatGradients once = rank.MakeGradients(), half = rank.MakeGradients();
  ASSERT_TRUE(rank.ForwardBackward(golden.batch, {.scale = 1.0}, once).ok());
  ASSERT_TRUE(rank.ForwardBackward(golden.batch, {.scale = 0.5}, half).ok());
  std::vector<float> doubled = Flatten(rank.model, half);
  for (float& value : doubled) value *= 2;
  EXPECT_EQ(doubled, Flatten(rank.model, once));
}

TEST_P(SegmentedPassTest, ComputesInBfloat16NearFloat32) {
  const GoldenDecoder golden(GetParam());
  SingleRank rank(*golden.model, at::kBFloat16);
  Fill(golden, rank);
  FlatGradients gradients = rank.MakeGradients();
  const double loss = *rank.ForwardBackward(golden.batch, {}, gradients);
  const double expected_loss = golden.file.Get<double>("loss_sum")[0];
  EXPECT_NEAR(loss, expected_loss, 0.02 * expected_loss);
  const std::vector<float> actual = Flatten(rank.model, gradients),
                           expected = golden.file.Get("gradients");
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  EXPECT_LT(error, 0.05 * 0.05 * size);
}

// Notes the largest memory that torch allocates on this thread at once.
class LargestAllocation : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    largest = std::max(largest, bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t largest = 0;
};

// The gradient of a head is as large as the head: it is summed in float32 where it belongs.
TEST_P(SegmentedPassTest, TheHeadAllocatesNothingOfItsSizeAndRoundsNothing) {
  const bool tied = GoldenDecoder(GetParam()).file.Get<int>("tied")[0] != 0;
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    const auto model = TransformerLm::Create({.layers = 1,
                                              .dim = 256,
                                              .heads = 2,
                                              .kv_heads = 2,
                                              .ff_dim = 8,
                                              .context = 4,
                                              .vocab = 3000,
                                              .tie_embeddings = tied},
                                             at::kCPU)
                           .value();
    const int head = UnitCount(*model) - 1;
    SingleRank rank(*model, compute);
    for (int unit = 0; unit <= head; ++unit) {
      std::vector<float> values(model->layout().units[unit].elements);
      InitializeParameters(*model, 1, unit, 0, absl::MakeSpan(values));
      rank.Write(unit, values);
    }
    const at::Tensor tokens = at::arange(9, at::kLong).view({1, 9});
    const LanguageBatch batch = {tokens.narrow(1, 0, 4), tokens.narrow(1, 1, 4)};
    FlatGradients gradients = rank.MakeGradients();
    const std::vector<at::Tensor> weights = rank.weights.Leaves(head, model->Borrowed(head));
    const at::Tensor x = RandomNormal({1, 4, 256}, 1).to(compute);
    const auto allocations = std::make_shared<LargestAllocation>();
    {
      const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocations);
      LastUnitPass(*model, weights, x, batch, GradientOfSums(*model, 0.3, at::kCPU), &gradients);
    }
    EXPECT_LT(allocations->largest, weights[1].numel());
    const std::vector<TensorRef> refs = RefsOf(*model, head);
    gradients.Finish(refs[1].unit);
    const at::Tensor flat = gradients.unit(refs[1].unit);
    EXPECT_FALSE(at::equal(flat, flat.to(at::kBFloat16).to(at::kFloat)));
  }
}

// Counts the calls of Forward of each unit.
class CountedDecoder : public Model {
 public:
  explicit CountedDecoder(const TransformerLm& decoder)
      : decoder_(decoder), calls(decoder.layout().units.size()) {}
  const ModelLayout& layout() const override { return decoder_.layout(); }
  InitialValues Initial(TensorRef tensor) const override { return decoder_.Initial(tensor); }
  std::vector<TensorRef> Borrowed(int unit) const override { return decoder_.Borrowed(unit); }
  at::Tensor Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                     const StagedBatch& batch) const override {
    ++calls[unit];
    return decoder_.Forward(unit, weights, x, batch);
  }

 private:
  const TransformerLm& decoder_;

 public:
  mutable std::vector<int> calls;
};

TEST_P(SegmentedPassTest, NeitherTheLastUnitNorTheEmbeddingIsRecomputed) {
  const GoldenDecoder golden(GetParam());
  const CountedDecoder counted(*golden.model);
  SingleRank rank(counted, at::kFloat);
  Fill(golden, rank);
  FlatGradients again = rank.MakeGradients(), kept = rank.MakeGradients();
  ASSERT_TRUE(rank.ForwardBackward(golden.batch, {.recompute = true}, again).ok());
  EXPECT_THAT(counted.calls, testing::ElementsAre(1, 2, 2, 1));
  ASSERT_TRUE(rank.ForwardBackward(golden.batch, {}, kept).ok());
  EXPECT_EQ(Flatten(rank.model, again), Flatten(rank.model, kept));
}

TEST_P(SegmentedPassTest, StopsWhereTheCallbackFails) {
  const GoldenDecoder golden(GetParam());
  SingleRank rank(*golden.model, at::kFloat);
  Fill(golden, rank);
  FlatGradients gradients = rank.MakeGradients();
  int calls = 0;
  const auto loss = rank.ForwardBackward(golden.batch, {}, gradients, [&](int) {
    return ++calls == 2 ? absl::UnavailableError("gone") : absl::OkStatus();
  });
  EXPECT_EQ(loss.status(), absl::UnavailableError("gone"));
  EXPECT_EQ(calls, 2);
}

INSTANTIATE_TEST_SUITE_P(Decoders, SegmentedPassTest,
                         testing::Values("transformer_grouped.txt",
                                         "transformer_tied_qk_norm.txt"));

}  // namespace
}  // namespace longhaul
