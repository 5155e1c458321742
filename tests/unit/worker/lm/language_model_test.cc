#include "worker/lm/language_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ATen/core/Tensor.h"
#include "common/base/random.h"
#include "worker/model/initialization.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

TransformerShape Grouped() {
  return {.layers = 2,
          .dim = 24,
          .heads = 4,
          .kv_heads = 2,
          .ff_dim = 40,
          .context = 64,
          .vocab = 37,
          .qk_norm = true,
          .head_dim = 10};
}

TransformerShape Tied() {
  TransformerShape shape = Grouped();
  shape.tie_embeddings = true;
  shape.qk_norm = false;
  return shape;
}

std::unique_ptr<LanguageModel> Make(const TransformerShape& shape) {
  const auto model = TransformerLm::Create(shape, at::kCPU).value();
  return LanguageModel::Load(shape, SeedParameters(*model, 5), 1).value();
}

std::vector<int64_t> SomeTokens(int64_t count) {
  Random random(3);
  std::vector<int64_t> tokens(count);
  for (int64_t& token : tokens) token = static_cast<int64_t>(random.Below(37));
  return tokens;
}

std::vector<float> AllLogits(LanguageModel& model, const std::vector<int64_t>& tokens,
                             const std::vector<int64_t>& document_starts = {}) {
  std::vector<float> all;
  EXPECT_TRUE(model
                  .Logits(
                      tokens,
                      [&](int64_t, absl::Span<const float> logits) {
                        all.insert(all.end(), logits.begin(), logits.end());
                        return absl::OkStatus();
                      },
                      document_starts)
                  .ok());
  return all;
}

TEST(LanguageModelTest, ContinuingGivesTheLogitsOfTheWholeSequence) {
  for (const TransformerShape& shape : {Grouped(), Tied()}) {
    const auto model = Make(shape);
    const std::vector<int64_t> tokens = SomeTokens(20);
    const std::vector<float> all = AllLogits(*model, tokens);
    ASSERT_EQ(all.size(), 20 * 37);
    const auto sequence = model->Begin(20).value();
    int64_t at = 0;
    for (const int64_t count : {5, 1, 1, 7, 6}) {  // Also several onto what is cached.
      const auto logits = sequence->Append(absl::MakeConstSpan(tokens).subspan(at, count)).value();
      at += count;
      EXPECT_EQ(sequence->positions(), at);
      for (int i = 0; i < 37; ++i) EXPECT_NEAR(logits[i], all[(at - 1) * 37 + i], 1e-5) << at;
    }
  }
}

TEST(LanguageModelTest, TheLossIsThatOfTheLogits) {
  for (const TransformerShape& shape : {Grouped(), Tied()}) {
    const auto model = Make(shape);
    const std::vector<int64_t> tokens = SomeTokens(33);  // Three sequences of ten and a target.
    double expected = 0;
    for (int s = 0; s < 3; ++s) {
      const std::vector<int64_t> one(tokens.begin() + 11 * s, tokens.begin() + 11 * s + 11);
      const std::vector<float> logits = AllLogits(*model, {one.begin(), one.end() - 1});
      for (int t = 0; t < 10; ++t) {
        double sum = 0;
        for (int i = 0; i < 37; ++i) sum += std::exp(logits[t * 37 + i]);
        expected += std::log(sum) - logits[t * 37 + one[t + 1]];
      }
    }
    EXPECT_NEAR(model->LossSum(tokens, 10).value(), expected, 1e-4 * expected);
  }
}

// Of 20 tokens: three documents, of 6, 1 and 13.
const std::vector<int64_t> kStarts = {0, 0, 0, 0, 0, 0, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};

TEST(LanguageModelTest, ATokenChangesNoLogitOfAnotherDocument) {
  for (const TransformerShape& shape : {Grouped(), Tied()}) {
    const auto model = Make(shape);
    std::vector<int64_t> tokens = SomeTokens(20);
    const std::vector<float> before = AllLogits(*model, tokens, kStarts);
    tokens[3] = (tokens[3] + 1) % 37;
    const std::vector<float> after = AllLogits(*model, tokens, kStarts);
    for (int t = 0; t < 20; ++t) {
      const bool same = std::equal(&before[t * 37], &before[t * 37] + 37, &after[t * 37]);
      EXPECT_EQ(same, t < 3 || t >= 6) << t;
    }
    // Each is what it is alone.
    const std::vector<float> last = AllLogits(*model, {tokens.begin() + 7, tokens.end()});
    for (size_t i = 0; i < last.size(); ++i) EXPECT_NEAR(last[i], after[7 * 37 + i], 1e-5) << i;
  }
}

TEST(LanguageModelTest, TheLossOfDocumentsIsThatOfTheirLogits) {
  for (const TransformerShape& shape : {Grouped(), Tied()}) {
    const auto model = Make(shape);
    const std::vector<int64_t> tokens = SomeTokens(21);
    const std::vector<float> logits =
        AllLogits(*model, {tokens.begin(), tokens.end() - 1}, kStarts);
    double expected = 0;
    for (int t = 0; t < 20; ++t) {
      double sum = 0;
      for (int i = 0; i < 37; ++i) sum += std::exp(logits[t * 37 + i]);
      expected += std::log(sum) - logits[t * 37 + tokens[t + 1]];
    }
    EXPECT_NEAR(model->LossSum(tokens, 20, kStarts).value(), expected, 1e-5 * expected);
    EXPECT_GT(std::abs(model->LossSum(tokens, 20).value() - expected), 1e-4 * expected);
  }
}

class NoNumbers : public InitialParameters {
 public:
  absl::Status Read(int, int64_t, absl::Span<float> out) const override {
    std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
    return absl::OkStatus();
  }
};

TEST(LanguageModelTest, AModelThatDivergedIsAnErrorAndNoText) {
  const auto model = LanguageModel::Load(Grouped(), NoNumbers(), 1).value();
  const auto sequence = model->Begin(4).value();
  EXPECT_EQ(sequence->Append({1, 2}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(model->LossSum(SomeTokens(11), 10).status().code(), absl::StatusCode::kDataLoss);
}

TEST(LanguageModelTest, TokensThatAreNoneAreRefused) {
  const auto model = Make(Grouped());
  EXPECT_TRUE(absl::IsInvalidArgument(model->LossSum({1, 37}, 1).status()));
  const auto sequence = model->Begin(3).value();
  EXPECT_TRUE(absl::IsInvalidArgument(sequence->Append({}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(sequence->Append({-1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(sequence->Append({1, 2, 3, 4}).status()));
  EXPECT_TRUE(sequence->Append({1, 2, 3}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(sequence->Append({1}).status()));
}

}  // namespace
}  // namespace longhaul
