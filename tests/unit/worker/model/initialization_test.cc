#include "worker/model/initialization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

std::unique_ptr<TransformerLm> MakeModel() {
  return TransformerLm::Create({.layers = 2,
                                .dim = 32,
                                .heads = 4,
                                .kv_heads = 2,
                                .ff_dim = 64,
                                .context = 8,
                                .vocab = 50},
                               at::kCPU)
      .value();
}

std::vector<float> Values(const Model& model, uint64_t seed, int unit) {
  std::vector<float> values(model.layout().units[unit].elements);
  InitializeParameters(model, seed, unit, 0, absl::MakeSpan(values));
  return values;
}

TEST(InitializationTest, AnyPartGivesTheSameValues) {
  const auto model = MakeModel();
  const std::vector<float> whole = Values(*model, 7, 1);
  for (int64_t first : {0, 1, 500, 1024, 1025, 8900}) {
    std::vector<float> part(300);
    InitializeParameters(*model, 7, 1, first, absl::MakeSpan(part));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << "from " << first;
  }
}

TEST(InitializationTest, DependsOnSeedAndUnit) {
  const auto model = MakeModel();
  EXPECT_NE(Values(*model, 7, 1), Values(*model, 8, 1));
  EXPECT_NE(Values(*model, 7, 1), Values(*model, 7, 2));
}

TEST(InitializationTest, HasTheModelsMeanAndDeviation) {
  const auto model = MakeModel();
  const UnitLayout& layout = model->layout().units[1];
  const std::vector<float> values = Values(*model, 7, 1);
  for (const TensorLayout& tensor : layout.tensors) {
    double sum = 0, squares = 0;
    for (int64_t i = tensor.offset; i < tensor.offset + tensor.elements; ++i) {
      sum += values[i];
      squares += values[i] * values[i];
    }
    const double mean = sum / static_cast<double>(tensor.elements);
    const double deviation =
        std::sqrt(squares / static_cast<double>(tensor.elements) - mean * mean);
    const bool residual = tensor.name.find("o_proj") != std::string::npos ||
                          tensor.name.find("down_proj") != std::string::npos;
    if (tensor.shape.size() == 1) {
      EXPECT_EQ(mean, 1) << tensor.name;
      EXPECT_EQ(deviation, 0) << tensor.name;
    } else {
      EXPECT_NEAR(deviation, residual ? 0.01 : 0.02, 0.001) << tensor.name;
      EXPECT_NEAR(mean, 0, 0.002) << tensor.name;
    }
  }
}

}  // namespace
}  // namespace longhaul
