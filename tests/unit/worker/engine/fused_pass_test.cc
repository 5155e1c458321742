// The hand-written pass against autograd, through the engine's own pass over units.
#include "worker/model/fused_pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ATen/Parallel.h"
#include "ATen/TensorOperators.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/ones_like.h"
#include "ATen/ops/zeros.h"
#include "ATen/ops/zeros_like.h"
#include "absl/strings/str_cat.h"
#include "c10/core/Allocator.h"
#include "c10/util/ThreadLocalDebugInfo.h"
#include "common/base/random.h"
#include "tests/testing/single_rank.h"
#include "worker/model/language_batch.h"
#include "worker/model/layers.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

std::vector<TransformerShape> Shapes() {
  const TransformerShape plain{
      .layers = 2, .dim = 32, .heads = 4, .kv_heads = 4, .ff_dim = 56, .context = 37, .vocab = 50};
  TransformerShape grouped = plain, normed = plain, tied = plain, wide = plain, odd = plain,
                   apart = plain, narrow = plain;
  grouped.kv_heads = 2;
  normed.qk_norm = true;
  normed.kv_heads = 1;
  tied.tie_embeddings = true;
  wide.dim = 192;
  wide.heads = 3;
  wide.kv_heads = 1;
  wide.context = 150;
  wide.qk_norm = true;
  odd.dim = 18;
  odd.heads = 3;
  odd.kv_heads = 3;
  odd.ff_dim = 7;
  odd.vocab = 3;
  odd.context = 3;
  apart.head_dim = 12;  // 48 wide beside 32.
  apart.kv_heads = 2;
  apart.qk_norm = true;
  apart.rope_scaling = {.kind = RopeScaling::Kind::kLlama3, .factor = 8, .original_context = 16};
  narrow.dim = 40;
  narrow.heads = 3;
  narrow.kv_heads = 1;
  narrow.head_dim = 6;
  narrow.rope_scaling = {.kind = RopeScaling::Kind::kLinear, .factor = 2};
  return {plain, grouped, normed, tied, wide, odd, apart, narrow};
}

std::string ShapeName(const TransformerShape& s) {
  return absl::StrCat("dim ", s.dim, " heads ", s.heads, "/", s.kv_heads, " of ", s.head_width(),
                      " qk_norm ", s.qk_norm, " tied ", s.tie_embeddings);
}

struct TestedDecoder {
  TestedDecoder(const TransformerShape& shape, at::ScalarType compute)
      : model(TransformerLm::Create(shape, at::kCPU).value()),
        rank(*model, compute),
        fused(model->MakeFusedPass(compute)) {
    at::set_num_threads(1);
    Random random(7);
    for (int unit = 0; unit < static_cast<int>(model->layout().units.size()); ++unit) {
      std::vector<float> values(model->layout().units[unit].elements);
      for (float& value : values) value = static_cast<float>(random.Below(2000)) / 10000.0f - 0.09f;
      rank.Write(unit, values);
    }
  }

  // Of `sequences` sequences of `positions` tokens.
  LanguageBatch MakeBatch(int64_t sequences, int64_t positions, int64_t vocab) {
    Random random(sequences + 100 * positions);
    const at::Tensor tokens = at::empty({sequences, positions + 1}, at::kLong);
    for (int64_t i = 0; i < tokens.numel(); ++i)
      tokens.data_ptr<int64_t>()[i] = static_cast<int64_t>(random.Below(vocab));
    return {tokens.narrow(1, 0, positions), tokens.narrow(1, 1, positions)};
  }

  std::unique_ptr<TransformerLm> model;
  SingleRank rank;
  std::unique_ptr<FusedPass> fused;
};

// The batch with documents, of lengths that differ between its sequences.
LanguageBatch WithDocuments(LanguageBatch batch, at::ScalarType compute) {
  batch.document_starts_BT = at::zeros(batch.inputs_BT.sizes(), c10::TensorOptions(at::kLong));
  const int64_t positions = batch.inputs_BT.size(1);
  for (int64_t b = 0; b < batch.inputs_BT.size(0); ++b) {
    int64_t* const starts = batch.document_starts_BT.data_ptr<int64_t>() + b * positions;
    for (int64_t t = 1; t < positions; ++t) {
      const bool begins = (t * t + 3 * b) % (5 + 6 * b) == 1;
      starts[t] = begins ? t : starts[t - 1];
    }
  }
  batch.mask_B1TT = DocumentMask(batch.document_starts_BT, compute);
  return batch;
}

// The batch with a loss on some targets: none of the last sequence, half of the others.
LanguageBatch WithLossMask(LanguageBatch batch) {
  batch.loss_mask_BT = at::zeros(batch.inputs_BT.sizes(), c10::TensorOptions(at::kBool));
  const int64_t positions = batch.inputs_BT.size(1);
  bool* const counts = batch.loss_mask_BT.data_ptr<bool>();
  for (int64_t i = 0; i < positions * (batch.inputs_BT.size(0) - 1); ++i) counts[i] = i % 4 < 2;
  return batch;
}

// The decoder whose loss is plain torch: log-softmax of all logits, times the mask.
class PlainLossDecoder : public Model {
 public:
  PlainLossDecoder(const TransformerLm& decoder, double norm_eps)
      : decoder_(decoder), norm_eps_(norm_eps) {}
  const ModelLayout& layout() const override { return decoder_.layout(); }
  InitialValues Initial(TensorRef tensor) const override { return decoder_.Initial(tensor); }
  std::vector<TensorRef> Borrowed(int unit) const override { return decoder_.Borrowed(unit); }
  at::Tensor Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                     const StagedBatch& batch) const override {
    if (layout().units[unit].kind != UnitKind::kHead)
      return decoder_.Forward(unit, weights, x, batch);
    const at::Tensor log_p =
        at::log_softmax(at::linear(RmsNorm(x, weights[0], norm_eps_), weights[1]), -1);
    const at::Tensor at_target =
        log_p.gather(-1, batch.tensors[kTargets].unsqueeze(-1)).squeeze(-1);
    return -(at_target * batch.tensors[kLossMask].to(at::kFloat)).sum().unsqueeze(0);
  }

 private:
  const TransformerLm& decoder_;
  const double norm_eps_;
};

struct PassOutcome {
  double loss = 0;
  std::vector<std::vector<float>> gradients;  // By tensor.
};

PassOutcome Differentiate(TestedDecoder& decoder, const LanguageBatch& batch, PassOptions options,
                          int passes = 1, const Model* model = nullptr) {
  if (model == nullptr) model = decoder.model.get();
  FlatGradients gradients = decoder.rank.MakeGradients();
  PassOutcome outcome;
  for (int pass = 0; pass < passes; ++pass) {
    WeightStream stream(*decoder.model, decoder.rank.weights, *decoder.rank.queue,
                        TrainingUses(*decoder.model), 1);
    if (pass == 0) gradients.BeginStep();
    outcome.loss = ForwardBackward(*model, batch, options, stream, gradients, [](int) {
                     return absl::OkStatus();
                   })->Total()[0];
  }
  const ModelLayout& layout = decoder.model->layout();
  for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
    gradients.Finish(unit);
    const float* const flat = gradients.unit(unit).data_ptr<float>();
    for (const TensorLayout& tensor : layout.units[unit].tensors)
      outcome.gradients.emplace_back(flat + tensor.offset, flat + tensor.offset + tensor.elements);
  }
  return outcome;
}

// Of the difference, by the size of `b`.
double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(error / (size + 1e-30));
}

double SizeOf(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += value * value;
  return std::sqrt(sum);
}

// Each tensor's gradient, relative to itself.
void ExpectNear(const PassOutcome& actual, const PassOutcome& expected, double bound) {
  EXPECT_NEAR(actual.loss, expected.loss, bound * std::abs(expected.loss));
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (size_t i = 0; i < actual.gradients.size(); ++i) {
    EXPECT_LT(RelativeDistance(actual.gradients[i], expected.gradients[i]), bound)
        << "tensor " << i;
  }
}

TEST(FusedPassTest, EqualsAutograd) {
  for (const TransformerShape& shape : Shapes()) {
    SCOPED_TRACE(ShapeName(shape));
    TestedDecoder decoder(shape, at::kFloat);
    for (const int64_t positions : {int64_t{2}, int64_t{3}, shape.context}) {
      const LanguageBatch batch = decoder.MakeBatch(3, positions, shape.vocab);
      const PassOutcome expected = Differentiate(decoder, batch, {.scale = 0.25});
      ExpectNear(Differentiate(decoder, batch, {.scale = 0.25, .fused = decoder.fused.get()}),
                 expected, 1e-5);
      EXPECT_NEAR(decoder.rank.ForwardOnly(batch, decoder.fused.get()), expected.loss,
                  1e-5 * expected.loss);
    }
  }
}

TEST(FusedPassTest, EqualsAutogradWithDocuments) {
  for (const TransformerShape& shape : Shapes()) {
    SCOPED_TRACE(ShapeName(shape));
    TestedDecoder decoder(shape, at::kFloat);
    for (const int64_t positions : {int64_t{3}, shape.context}) {
      const LanguageBatch plain = decoder.MakeBatch(3, positions, shape.vocab);
      const LanguageBatch batch = WithDocuments(plain, at::kFloat);
      const PassOutcome expected = Differentiate(decoder, batch, {.scale = 0.25});
      const PassOutcome actual =
          Differentiate(decoder, batch, {.scale = 0.25, .fused = decoder.fused.get()});
      ExpectNear(actual, expected, 1e-5);
      EXPECT_EQ(actual.loss, decoder.rank.ForwardOnly(batch, decoder.fused.get()));
      const PassOutcome again = Differentiate(
          decoder, batch, {.scale = 0.25, .recompute = true, .fused = decoder.fused.get()});
      EXPECT_EQ(actual.gradients, again.gradients);
      // They matter, and the next batch is without them again.
      const double whole = decoder.rank.ForwardOnly(plain, decoder.fused.get());
      EXPECT_NE(actual.loss, whole);
      EXPECT_NEAR(whole, decoder.rank.ForwardOnly(plain, nullptr), 1e-5 * whole);
    }
  }
}

TEST(FusedPassTest, EqualsPlainTorchWithALossMask) {
  for (const TransformerShape& shape : Shapes()) {
    SCOPED_TRACE(ShapeName(shape));
    TestedDecoder decoder(shape, at::kFloat);
    const PlainLossDecoder plain(*decoder.model, shape.norm_eps);
    for (const bool documents : {false, true}) {
      const LanguageBatch whole = decoder.MakeBatch(3, shape.context, shape.vocab);
      LanguageBatch batch = WithLossMask(documents ? WithDocuments(whole, at::kFloat) : whole);
      const PassOutcome expected = Differentiate(decoder, batch, {.scale = 0.25}, 1, &plain);
      ExpectNear(Differentiate(decoder, batch, {.scale = 0.25}), expected, 1e-5);
      const PassOutcome actual =
          Differentiate(decoder, batch, {.scale = 0.25, .fused = decoder.fused.get()});
      ExpectNear(actual, expected, 1e-5);
      EXPECT_EQ(actual.gradients,
                Differentiate(decoder, batch,
                              {.scale = 0.25, .recompute = true, .fused = decoder.fused.get()})
                    .gradients);
      for (FusedPass* const fused : {decoder.fused.get(), static_cast<FusedPass*>(nullptr)}) {
        EXPECT_NEAR(decoder.rank.ForwardOnly(batch, fused), expected.loss, 1e-5 * expected.loss);
        // It matters. A mask that counts all changes no bit, and the next batch has none again.
        LanguageBatch all = batch, none = batch;
        all.loss_mask_BT = at::ones_like(batch.loss_mask_BT);
        none.loss_mask_BT = at::zeros_like(batch.loss_mask_BT);
        EXPECT_EQ(decoder.rank.ForwardOnly(none, fused), 0);
        const double masked = decoder.rank.ForwardOnly(all, fused);
        EXPECT_GT(masked, 1.5 * expected.loss);
        batch.loss_mask_BT.reset();
        EXPECT_EQ(decoder.rank.ForwardOnly(batch, fused), masked);
        batch = WithLossMask(batch);
      }
    }
  }
}

// What is computed of a document in a row is what is computed of it alone: positions count from the
// row's beginning, and rotary attention sees their distances only.
TEST(FusedPassTest, ADocumentInARowIsThatDocumentAlone) {
  const TransformerShape shape = Shapes()[1];
  TestedDecoder decoder(shape, at::kFloat);
  const int64_t first = 11, positions = shape.context;
  LanguageBatch batch = decoder.MakeBatch(1, positions, shape.vocab);
  const auto part = [&](int64_t at, int64_t count) {
    return LanguageBatch{batch.inputs_BT.narrow(1, at, count),
                         batch.targets_BT.narrow(1, at, count)};
  };
  const double alone =
      decoder.rank.ForwardOnly(part(0, first), decoder.fused.get()) +
      decoder.rank.ForwardOnly(part(first, positions - first), decoder.fused.get());
  batch.document_starts_BT = at::zeros({1, positions}, c10::TensorOptions(at::kLong));
  batch.document_starts_BT.narrow(1, first, positions - first).fill_(first);
  EXPECT_NEAR(decoder.rank.ForwardOnly(batch, decoder.fused.get()), alone, 1e-5 * alone);
}

// With so many tokens logits are computed 64 rows at a time.
TEST(FusedPassTest, EqualsAutogradWithManyTokens) {
  const TransformerShape shape{
      .layers = 1, .dim = 8, .heads = 2, .kv_heads = 2, .ff_dim = 8, .context = 45, .vocab = 70000};
  TestedDecoder decoder(shape, at::kFloat);
  const LanguageBatch batch = decoder.MakeBatch(3, shape.context, shape.vocab);
  const PassOutcome expected = Differentiate(decoder, batch, {.scale = 0.25});
  for (const bool recompute : {false, true}) {
    const PassOutcome actual = Differentiate(
        decoder, batch, {.scale = 0.25, .recompute = recompute, .fused = decoder.fused.get()});
    ExpectNear(actual, expected, 1e-5);
    EXPECT_EQ(actual.loss, decoder.rank.ForwardOnly(batch, decoder.fused.get()));
  }
}

// Nothing depends on queries and keys then: where autograd has rounding errors, so have we.
TEST(FusedPassTest, EqualsAutogradOnSinglePositions) {
  for (const TransformerShape& shape : Shapes()) {
    TestedDecoder decoder(shape, at::kFloat);
    const LanguageBatch batch = decoder.MakeBatch(5, 1, shape.vocab);
    const PassOutcome expected = Differentiate(decoder, batch, {});
    const PassOutcome actual = Differentiate(decoder, batch, {.fused = decoder.fused.get()});
    double size = 0;
    for (const auto& gradient : expected.gradients) size = std::max(size, SizeOf(gradient));
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      const double distance = RelativeDistance(actual.gradients[i], expected.gradients[i]);
      EXPECT_LT(distance * SizeOf(expected.gradients[i]), 1e-5 * size)
          << ShapeName(shape) << " " << i;
    }
  }
}

TEST(FusedPassTest, RecomputesToTheSameBits) {
  for (const TransformerShape& shape : Shapes()) {
    TestedDecoder decoder(shape, at::kFloat);
    const LanguageBatch batch = decoder.MakeBatch(3, shape.context, shape.vocab);
    const PassOutcome kept = Differentiate(decoder, batch, {.fused = decoder.fused.get()});
    const PassOutcome again =
        Differentiate(decoder, batch, {.recompute = true, .fused = decoder.fused.get()});
    EXPECT_EQ(kept.loss, again.loss);
    EXPECT_EQ(kept.gradients, again.gradients) << ShapeName(shape);
    EXPECT_EQ(kept.loss, decoder.rank.ForwardOnly(batch, decoder.fused.get()));
  }
}

TEST(FusedPassTest, AddsToWhatGradientsHave) {
  for (const TransformerShape& shape : Shapes()) {
    SCOPED_TRACE(ShapeName(shape));
    TestedDecoder decoder(shape, at::kFloat);
    const LanguageBatch batch = decoder.MakeBatch(2, shape.context, shape.vocab);
    ExpectNear(Differentiate(decoder, batch, {.fused = decoder.fused.get()}, 3),
               Differentiate(decoder, batch, {}, 3), 1e-5);
  }
}

TEST(FusedPassTest, TheNumberOfThreadsChangesNoBit) {
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    for (const TransformerShape& shape : Shapes()) {
      TestedDecoder decoder(shape, compute);
      const LanguageBatch batch = decoder.MakeBatch(3, shape.context, shape.vocab);
      for (const LanguageBatch& tokens : {batch, WithDocuments(batch, compute)}) {
        const PassOutcome one = Differentiate(decoder, tokens, {.fused = decoder.fused.get()});
        for (const int threads : {2, 3, 8}) {
          at::set_num_threads(threads);
          const PassOutcome more = Differentiate(decoder, tokens, {.fused = decoder.fused.get()});
          EXPECT_EQ(one.loss, more.loss);
          EXPECT_EQ(one.gradients, more.gradients) << ShapeName(shape);
        }
        at::set_num_threads(1);
      }
    }
  }
}

void ExpectBfloat16IsNear(TestedDecoder& decoder, const LanguageBatch& batch,
                          const PassOutcome& expected) {
  const PassOutcome autograd = Differentiate(decoder, batch, {});
  const PassOutcome actual = Differentiate(decoder, batch, {.fused = decoder.fused.get()});
  EXPECT_NEAR(actual.loss, expected.loss, 2e-3 * expected.loss);
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    const double ours = RelativeDistance(actual.gradients[i], expected.gradients[i]);
    EXPECT_LT(ours, 0.02 + 1.5 * RelativeDistance(autograd.gradients[i], expected.gradients[i]))
        << i;
    EXPECT_LT(ours, 0.1) << i;
  }
}

// Of both from float32; ours keeps activations in float32, so that it is the nearer one.
TEST(FusedPassTest, Bfloat16IsAsNearAsAutogradIs) {
  for (const TransformerShape& shape : Shapes()) {
    SCOPED_TRACE(ShapeName(shape));
    TestedDecoder decoder(shape, at::kBFloat16), exact(shape, at::kFloat);
    const LanguageBatch batch = decoder.MakeBatch(3, shape.context, shape.vocab);
    ExpectBfloat16IsNear(decoder, batch, Differentiate(exact, batch, {}));
    ExpectBfloat16IsNear(decoder, WithDocuments(batch, at::kBFloat16),
                         Differentiate(exact, WithDocuments(batch, at::kFloat), {}));
  }
}

// Counts what torch allocates on this thread.
class AllocationCount : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    if (bytes > 0) ++count;
  }
  bool memoryProfilingEnabled() const override { return true; }
  int count = 0;
};

TEST(FusedPassTest, AllocatesNothingAfterTheFirstStep) {
  const TransformerShape shape = Shapes()[1];
  TestedDecoder decoder(shape, at::kFloat);
  const LanguageBatch batch = decoder.MakeBatch(3, shape.context, shape.vocab);
  const LanguageBatch smaller = decoder.MakeBatch(2, shape.context, shape.vocab);
  const LanguageBatch documents = WithDocuments(batch, at::kFloat);
  FlatGradients gradients = decoder.rank.MakeGradients();
  const auto step = [&](const LanguageBatch& tokens, FusedPass* fused) {
    ASSERT_TRUE(decoder.rank.ForwardBackward(tokens, {.fused = fused}, gradients).ok());
    decoder.rank.ForwardOnly(tokens, fused);
  };
  step(documents, decoder.fused.get());
  const int64_t bytes = decoder.fused->bytes();
  const auto count = std::make_shared<AllocationCount>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
    for (int i = 0; i < 3; ++i) {
      step(batch, decoder.fused.get());
      step(smaller, decoder.fused.get());
      step(documents, decoder.fused.get());
    }
  }
  EXPECT_EQ(count->count, 0);
  EXPECT_EQ(decoder.fused->bytes(), bytes);
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
    step(batch, nullptr);
  }
  EXPECT_GT(count->count, 50);  // The count counts.
}

TEST(FusedPassTest, RefusesATokenBeyondTheVocabulary) {
  const TransformerShape shape = Shapes()[0];
  TestedDecoder decoder(shape, at::kFloat);
  const LanguageBatch batch = decoder.MakeBatch(2, 4, shape.vocab + 100);
  EXPECT_THROW(decoder.fused->Begin(batch, {}), c10::Error);
}

TEST(FusedPassTest, RefusesALossMaskOfAnotherBatch) {
  const TransformerShape shape = Shapes()[0];
  TestedDecoder decoder(shape, at::kFloat);
  LanguageBatch batch = decoder.MakeBatch(2, 4, shape.vocab);
  batch.loss_mask_BT = at::zeros({2, 3}, c10::TensorOptions(at::kBool));
  EXPECT_THROW(decoder.fused->Begin(batch, {}), c10::Error);
}

TEST(FusedPassTest, RefusesDocumentsThatAreNone) {
  const TransformerShape shape = Shapes()[0];
  TestedDecoder decoder(shape, at::kFloat);
  LanguageBatch batch = decoder.MakeBatch(2, 4, shape.vocab);
  for (const std::vector<int64_t>& starts : {std::vector<int64_t>{0, 0, 2, 2, 0, 1, 0, 0},
                                             {1, 1, 1, 1, 0, 0, 0, 0},
                                             {0, 0, 0, 5, 0, 0, 0, 0},
                                             {0, 0, 0, -1, 0, 0, 0, 0}}) {
    batch.document_starts_BT = at::zeros({2, 4}, c10::TensorOptions(at::kLong));
    std::copy(starts.begin(), starts.end(), batch.document_starts_BT.data_ptr<int64_t>());
    EXPECT_THROW(decoder.fused->Begin(batch, {}), c10::Error);
  }
  batch.document_starts_BT = at::zeros({2, 3}, c10::TensorOptions(at::kLong));
  EXPECT_THROW(decoder.fused->Begin(batch, {}), c10::Error);
  // Autograd's blocks read the mask alone: forgotten, documents would silently not be separate.
  EXPECT_THROW(decoder.rank.ForwardOnly(batch, nullptr), c10::Error);
}

}  // namespace
}  // namespace longhaul
