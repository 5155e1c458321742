#include "worker/engine/flat_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ATen/ops/equal.h"
#include "worker/model/bigram_model.h"

namespace longhaul {
namespace {

using testing::ElementsAre;

TEST(FlatParametersTest, LeavesSeeWhatIsWritten) {
  const BigramModel model(2);
  FlatParameters parameters(model.layout(), at::kCPU, at::kFloat);
  parameters.Write(0, 1, {5, 6});
  const at::Tensor table = parameters.Leaves(0, {})[0];
  EXPECT_EQ(table.sizes(), (std::vector<int64_t>{2, 2}));
  EXPECT_TRUE(table.requires_grad());
  EXPECT_TRUE(table.is_leaf());
  EXPECT_EQ(table[0][1].item<float>(), 5);
  EXPECT_EQ(table[1][0].item<float>(), 6);
  std::vector<float> read(3);
  parameters.Read(0, 0, absl::MakeSpan(read));
  EXPECT_THAT(read, ElementsAre(0, 5, 6));
}

TEST(FlatParametersTest, BorrowedTensorsFollowTheUnitsOwn) {
  const BigramModel model(2);
  FlatParameters parameters(model.layout(), at::kCPU, at::kFloat);
  const TensorRef table{0, 0};
  const auto leaves = parameters.Leaves(1, {&table, 1});
  ASSERT_EQ(leaves.size(), 2u);
  EXPECT_EQ(leaves[0].dim(), 1);
  EXPECT_EQ(leaves[1].data_ptr(), parameters.Leaves(0, {})[0].data_ptr());
}

TEST(FlatParametersTest, TheShadowFollowsEveryWrite) {
  const BigramModel model(2);
  FlatParameters parameters(model.layout(), at::kCPU, at::kBFloat16);
  parameters.Write(0, 0, {1, 2, 3, 4});
  EXPECT_EQ(parameters.Leaves(0, {})[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(parameters.Leaves(0, {})[0][1][1].item<float>(), 4);
  parameters.Write(0, 3, {8});
  EXPECT_EQ(parameters.Leaves(0, {})[0][1][1].item<float>(), 8);
  parameters.unit(0).mul_(2);
  parameters.Wrote(0);
  EXPECT_EQ(parameters.Leaves(0, {})[0][1][1].item<float>(), 16);
}

TEST(FlatParametersTest, VectorsStayInFloat32) {
  const BigramModel model(2);
  FlatParameters parameters(model.layout(), at::kCPU, at::kBFloat16);
  EXPECT_EQ(parameters.Leaves(1, {})[0].scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace longhaul
