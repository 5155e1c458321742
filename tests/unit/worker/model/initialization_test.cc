#include "worker/model/initialization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "ATen/Parallel.h"
#include "common/base/random.h"
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

// Element `index` by itself, as the formula defines it.
float Alone(uint64_t key, int64_t index, double deviation) {
  const auto words = Philox(key, 0, static_cast<uint64_t>(index / 2));
  const double u = (static_cast<double>(uint64_t{words[1]} << 32 | words[0]) + 0.5) * 0x1p-64;
  const double angle =
      2 * std::numbers::pi * static_cast<double>(uint64_t{words[3]} << 32 | words[2]) * 0x1p-64;
  const double turned = index % 2 == 0 ? std::cos(angle) : std::sin(angle);
  return static_cast<float>(deviation * (std::sqrt(-2 * std::log(u)) * turned));
}

TEST(InitializationTest, ThreadsAndPairsChangeNoBit) {
  const int threads = at::get_num_threads();
  const auto model = TransformerLm::Create({.layers = 1,
                                            .dim = 96,
                                            .heads = 4,
                                            .kv_heads = 4,
                                            .ff_dim = 64,
                                            .context = 8,
                                            .vocab = 501},
                                           at::kCPU)
                         .value();
  const uint64_t key = Philox64(7, 0x696e6974, 0);
  for (const int count : {1, 3, 8}) {
    at::set_num_threads(count);
    const std::vector<float> table = Values(*model, 7, 0);
    ASSERT_EQ(table.size(), 501u * 96u);
    for (size_t i = 0; i < table.size(); ++i)
      ASSERT_EQ(table[i], Alone(key, static_cast<int64_t>(i), 0.02)) << i;
    for (const int64_t first : {1, 8191, 8192, 20'001}) {
      std::vector<float> part(17'001);
      InitializeParameters(*model, 7, 0, first, absl::MakeSpan(part));
      EXPECT_TRUE(std::equal(part.begin(), part.end(), table.begin() + first)) << first;
    }
  }
  at::set_num_threads(threads);
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
