#include "common/layout/graph_sage_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/layout/fragment_layout.h"
#include "common/layout/unit_pieces.h"

namespace longhaul {
namespace {

using ::testing::StartsWith;

GraphSageShape Small() {
  return {.columns = 5, .hidden = 4, .classes = 3, .fanout = {2, -1}, .layer_norm = true};
}

TEST(GraphSageLayoutTest, AUnitIsALayer) {
  const ModelLayout model = LayOutGraphSage(Small()).value();
  ASSERT_EQ(model.units.size(), 2u);
  std::vector<std::string> names;
  for (const UnitLayout& unit : model.units) {
    int64_t next = 0;
    for (const TensorLayout& tensor : unit.tensors) {
      EXPECT_EQ(tensor.offset, next);
      next += tensor.elements;
      names.push_back(tensor.name);
    }
    EXPECT_EQ(next, unit.elements);
  }
  EXPECT_THAT(names, testing::ElementsAre("layers.0.fc_self.weight", "layers.0.fc_neigh.weight",
                                          "layers.0.fc_self.bias", "norms.0.weight", "norms.0.bias",
                                          "layers.1.fc_self.weight", "layers.1.fc_neigh.weight",
                                          "layers.1.fc_self.bias"));
  EXPECT_EQ(model.units[0].tensors[kNeighborWeight].shape, (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(model.units[1].tensors[kSelfWeight].shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(model.units[1].tensors[kSelfBias].shape, (std::vector<int64_t>{3}));
}

TEST(GraphSageLayoutTest, MuonUpdatesHiddenMatricesAndDecayAppliesToMatrices) {
  const ModelLayout model = LayOutGraphSage(Small()).value();
  EXPECT_EQ(CountMatrices(model).matrices, 2);
  for (const UnitLayout& unit : model.units) {
    for (const TensorLayout& tensor : unit.tensors) {
      EXPECT_EQ(tensor.matrix, tensor.shape.size() == 2 && unit.layer == 0) << tensor.name;
      EXPECT_EQ(tensor.decay, tensor.shape.size() == 2) << tensor.name;
    }
  }
}

TEST(GraphSageLayoutTest, LayersAreSharedOutOverFragments) {
  const auto fragments = CutFragments(LayOutGraphSage(Small()).value(), {.count = 2});
  ASSERT_TRUE(fragments.ok()) << fragments.status();
  EXPECT_EQ(fragments->size(), 2u);
}

TEST(GraphSageLayoutTest, RefusesSizesThatAreOutOfRange) {
  const auto refused = [](auto change, const char* field) {
    GraphSageShape shape = Small();
    change(shape);
    EXPECT_THAT(std::string(LayOutGraphSage(shape).status().message()), StartsWith(field));
  };
  refused([](GraphSageShape& s) { s.columns = 0; }, "columns: ");
  refused([](GraphSageShape& s) { s.hidden = kGraphHiddenMax + 1; }, "hidden: ");
  refused([](GraphSageShape& s) { s.classes = 1; }, "classes: ");
  refused([](GraphSageShape& s) { s.fanout = {0, 1}; }, "fanout: ");
  refused([](GraphSageShape& s) { s.fanout = {-2}; }, "fanout: ");
  refused([](GraphSageShape& s) { s.fanout = {kGraphFanoutMax + 1}; }, "fanout: ");
  refused([](GraphSageShape& s) { s.fanout.assign(9, 1); }, "fanout: ");
  refused([](GraphSageShape& s) { s.fanout.clear(); }, "fanout: ");
  refused([](GraphSageShape& s) { s.dropout = 1; }, "dropout: ");
  refused([](GraphSageShape& s) { s.dropout = -0.1; }, "dropout: ");
  refused([](GraphSageShape& s) { s.dropout = std::nan(""); }, "dropout: ");
}

}  // namespace
}  // namespace longhaul
