#include "common/layout/unit_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace longhaul {
namespace {

ModelLayout Decoder(int64_t layers, int64_t dim, int64_t ff_dim) {
  return LayOutTransformer({.layers = layers,
                            .dim = dim,
                            .heads = 2,
                            .kv_heads = 1,
                            .ff_dim = ff_dim,
                            .context = 8,
                            .vocab = 50})
      .value();
}

TEST(UnitPiecesTest, BothRulesCoverEveryBlockOnceInOrder) {
  const ModelLayout model = Decoder(3, 48, 96);
  for (const CutRule rule : {CutRule::kBlocks, CutRule::kMatrices}) {
    for (const int pieces : {1, 2, 3, 4, 9, 64}) {
      const auto units = CutUnits(model, pieces, rule);
      for (size_t u = 0; u < model.units.size(); ++u) {
        ASSERT_EQ(units[u].size(), static_cast<size_t>(pieces));
        int64_t next = 0;
        for (const BlockRange& blocks : units[u]) {
          EXPECT_EQ(blocks.first, next);
          next = blocks.end();
        }
        EXPECT_EQ(next, (model.units[u].elements + kBlockElements - 1) / kBlockElements);
      }
    }
  }
}

// 10 * 10 and 20 * 10 elements do not end where a block begins: such tensors stay together.
TEST(UnitPiecesTest, NoHiddenMatrixIsCut) {
  for (const int64_t dim : {48, 20}) {
    const ModelLayout model = Decoder(3, dim, 2 * dim);
    for (const int pieces : {2, 3, 4, 16}) {
      const auto units = CutUnits(model, pieces, CutRule::kMatrices);
      for (size_t u = 0; u < model.units.size(); ++u) {
        for (const TensorLayout& tensor : model.units[u].tensors) {
          if (!tensor.matrix) continue;
          for (const BlockRange& blocks : units[u]) {
            const int64_t cut = blocks.first * kBlockElements;
            EXPECT_FALSE(tensor.offset < cut && cut < tensor.offset + tensor.elements)
                << tensor.name << ", dim " << dim;
          }
        }
      }
    }
  }
}

TEST(UnitPiecesTest, MatricesAreSharedByTheirWork) {
  const ModelLayout model = Decoder(12, 64, 192);
  for (const int pieces : {2, 3, 4, 8}) {
    const auto units = CutUnits(model, pieces, CutRule::kMatrices);
    std::vector<double> loads(pieces);
    for (size_t u = 0; u < model.units.size(); ++u) {
      for (const TensorLayout& tensor : model.units[u].tensors) {
        if (!tensor.matrix) continue;
        for (int piece = 0; piece < pieces; ++piece) {
          const int64_t first = units[u][piece].first * kBlockElements;
          if (first <= tensor.offset && tensor.offset < units[u][piece].end() * kBlockElements)
            loads[piece] += static_cast<double>(tensor.elements);
        }
      }
    }
    const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
    EXPECT_LT(*most, 1.3 * *least) << pieces;
  }
}

TEST(UnitPiecesTest, CountsWhatIsInHiddenMatrices) {
  const ModelLayout model = Decoder(2, 48, 96);
  const MatrixCount count = CountMatrices(model);
  EXPECT_EQ(count.matrices, 2 * 7);
  EXPECT_EQ(count.elements, 2 * (2 * 48 * 48 + 2 * 24 * 48 + 3 * 48 * 96));
  EXPECT_EQ(count.elements + count.rest, model.elements());
  EXPECT_EQ(CountMatrices(*LayOutSynthetic(2, 100)).matrices, 0);
}

}  // namespace
}  // namespace longhaul
