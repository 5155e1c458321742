#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "common/layout/fragment_layout.h"
#include "common/layout/model_layout.h"

namespace longhaul {
namespace {

TransformerShape Shape(int64_t layers = 6) {
  return {.layers = layers,
          .dim = 16,
          .heads = 4,
          .kv_heads = 2,
          .ff_dim = 40,
          .context = 32,
          .vocab = 50};
}

TEST(ModelLayoutTest, ATransformerIsItsEmbeddingItsBlocksAndItsHead) {
  const auto model = LayOutTransformer(Shape(3));
  ASSERT_TRUE(model.ok());
  ASSERT_EQ(model->units.size(), 5);
  EXPECT_EQ(model->units[0].kind, UnitKind::kEmbedding);
  EXPECT_EQ(model->units[2].kind, UnitKind::kBlock);
  EXPECT_EQ(model->units[2].layer, 1);
  EXPECT_EQ(model->units[4].kind, UnitKind::kHead);
  EXPECT_EQ(model->units[0].elements, 50 * 16);
  // q, o: 16 x 16; k, v: 8 x 16; gate, up, down: 40 x 16; two norms.
  EXPECT_EQ(model->units[1].elements, 2 * 256 + 2 * 128 + 3 * 640 + 2 * 16);
  EXPECT_EQ(model->units[4].elements, 16 + 50 * 16);
}

TEST(ModelLayoutTest, TensorsFollowEachOtherWithoutGaps) {
  TransformerShape shape = Shape(2);
  shape.qk_norm = true;
  const auto model = LayOutTransformer(shape);
  ASSERT_TRUE(model.ok());
  std::set<std::string> names;
  for (const UnitLayout& unit : model->units) {
    int64_t end = 0;
    for (const TensorLayout& tensor : unit.tensors) {
      EXPECT_EQ(tensor.offset, end);
      end += tensor.elements;
      EXPECT_EQ(tensor.decay, tensor.shape.size() > 1);
      EXPECT_EQ(tensor.matrix, unit.kind == UnitKind::kBlock && tensor.shape.size() == 2);
      EXPECT_TRUE(names.insert(tensor.name).second);
    }
    EXPECT_EQ(end, unit.elements);
  }
  EXPECT_TRUE(names.contains("model.layers.1.self_attn.k_norm.weight"));
}

TEST(ModelLayoutTest, HeadsNeedNotShareTheWidth) {
  TransformerShape shape = Shape(1);
  // Not a multiple of the four heads.
  shape.dim = 18;
  shape.head_dim = 6;
  const auto model = LayOutTransformer(shape);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->units[1].tensors[0].shape, (std::vector<int64_t>{24, 18}));
  EXPECT_EQ(model->units[1].tensors[1].shape, (std::vector<int64_t>{12, 18}));
  EXPECT_EQ(model->units[1].tensors[3].shape, (std::vector<int64_t>{18, 24}));
  shape.head_dim = 5;
  EXPECT_EQ(LayOutTransformer(shape).status().message().substr(0, 9), "head_dim:");
}

TEST(ModelLayoutTest, ScalingsAreChecked) {
  TransformerShape shape = Shape(1);
  shape.rope_scaling = {.kind = RopeScaling::Kind::kLlama3, .factor = 8};
  EXPECT_TRUE(LayOutTransformer(shape).ok());
  for (const double bad : {0.5, 1e7, std::numeric_limits<double>::quiet_NaN()}) {
    shape.rope_scaling.factor = bad;
    EXPECT_EQ(LayOutTransformer(shape).status().message().substr(0, 27),
              "rope_scaling.llama3.factor:");
  }
  shape.rope_scaling = {.kind = RopeScaling::Kind::kLinear, .factor = 0};
  EXPECT_FALSE(LayOutTransformer(shape).ok());
}

TEST(ModelLayoutTest, ATiedHeadHasNoProjection) {
  TransformerShape shape = Shape();
  shape.tie_embeddings = true;
  EXPECT_EQ(LayOutTransformer(shape)->units.back().elements, 16);
}

TEST(ModelLayoutTest, RefusesImpossibleShapesByTheNameOfTheField) {
  const auto refused = [](auto change) {
    TransformerShape shape = Shape();
    change(shape);
    const auto model = LayOutTransformer(shape);
    return model.ok() ? ""
                      : std::string(
                            model.status().message().substr(0, model.status().message().find(':')));
  };
  EXPECT_EQ(refused([](auto& s) { s.layers = 0; }), "layers");
  EXPECT_EQ(refused([](auto& s) {
              s.heads = 5;
              s.kv_heads = 5;
            }),
            "heads");
  EXPECT_EQ(refused([](auto& s) { s.kv_heads = 3; }), "kv_heads");
  EXPECT_EQ(refused([](auto& s) { s.vocab = 1; }), "vocab");
  for (const double eps : {0.0, 1e-50, 1.0})
    EXPECT_EQ(refused([&](auto& s) { s.norm_eps = eps; }), "norm_eps");
  EXPECT_EQ(refused([](auto& s) {
              s.layers = 1024;
              s.dim = 1 << 20;
              s.ff_dim = 1 << 22;
            }),
            "layers");
  EXPECT_FALSE(LayOutSynthetic(0, 1).ok());
  EXPECT_FALSE(LayOutSynthetic(4096, int64_t{1} << 36).ok());
}

TEST(CutFragmentsTest, EveryUnitIsInOneFragmentAtAMultipleOfABlock) {
  const auto model = LayOutTransformer(Shape());
  for (FragmentRule rule :
       {FragmentRule::kBalanced, FragmentRule::kStrided, FragmentRule::kSequential}) {
    const auto fragments = CutFragments(*model, {.rule = rule, .count = 2});
    ASSERT_TRUE(fragments.ok());
    std::set<int> units;
    for (const FragmentLayout& fragment : *fragments) {
      int64_t end = 0;
      for (const UnitSpan& span : fragment.units) {
        EXPECT_TRUE(units.insert(span.unit).second);
        EXPECT_EQ(span.offset % kBlockElements, 0);
        EXPECT_GE(span.offset, end);
        EXPECT_LT(span.offset, end + kBlockElements);
        end = span.offset + span.elements;
      }
      EXPECT_EQ(fragment.elements, end);
    }
    EXPECT_EQ(units.size(), model->units.size());
  }
}

// As of a model without embeddings, whose last layer computes the loss.
TEST(CutFragmentsTest, UnitsWithTheIndexOfALayerAreSharedOut) {
  ModelLayout model;
  for (int64_t layer = 0; layer < 3; ++layer)
    model.units.push_back(
        {.kind = layer == 2 ? UnitKind::kHead : UnitKind::kBlock, .layer = layer});
  const auto fragments = CutFragments(model, {.rule = FragmentRule::kSequential, .count = 2});
  ASSERT_EQ(fragments->size(), 2);
  EXPECT_EQ((*fragments)[0].name, "layers 0,1");
  EXPECT_EQ((*fragments)[1].name, "layers 2");
}

TEST(CutFragmentsTest, NamesFragmentsByTheirLayers) {
  const auto model = LayOutTransformer(Shape());
  const auto strided = CutFragments(*model, {.rule = FragmentRule::kStrided, .count = 2});
  ASSERT_EQ(strided->size(), 4);
  EXPECT_EQ((*strided)[0].name, "embeddings");
  EXPECT_EQ((*strided)[1].name, "layers 0,3");
  const auto sequential = CutFragments(*model, {.rule = FragmentRule::kSequential, .count = 4});
  ASSERT_EQ(sequential->size(), 3);
  EXPECT_EQ((*sequential)[1].name, "layers 0,1,2,3");
  EXPECT_EQ((*sequential)[2].name, "layers 4,5");
}

// As in the paper: three of 24 layers are sent at a time, an eighth of what DiLoCo sends.
TEST(CutFragmentsTest, FragmentsOfThreeLayersOf24SendAnEighth) {
  const auto model = LayOutTransformer(Shape(24));
  for (const FragmentRule rule : {FragmentRule::kStrided, FragmentRule::kSequential}) {
    const auto fragments = CutFragments(*model, {.rule = rule, .count = 3});
    ASSERT_EQ(fragments->size(), 9);
    int64_t most = 0, layers = 0;
    for (const FragmentLayout& fragment : *fragments) {
      if (fragment.name == "embeddings") continue;
      int64_t elements = 0;
      for (const UnitSpan& unit : fragment.units) elements += unit.elements;
      most = std::max(most, elements);
      layers += elements;
    }
    EXPECT_EQ(8 * most, layers);
  }
}

TEST(CutFragmentsTest, RefusesMoreFragmentsThanLayers) {
  const auto model = LayOutTransformer(Shape());
  EXPECT_FALSE(CutFragments(*model, {.count = 7}).ok());
  EXPECT_FALSE(CutFragments(*model, {.count = 0}).ok());
  EXPECT_TRUE(CutFragments(*model, {.count = 6}).ok());
}

TEST(CutFragmentsTest, VectorsAreFragmentsOfTheirOwn) {
  const auto fragments = CutFragments(*LayOutSynthetic(3, 200), {});
  ASSERT_TRUE(fragments.ok());
  ASSERT_EQ(fragments->size(), 3);
  EXPECT_EQ((*fragments)[2].elements, 200);
  EXPECT_EQ((*fragments)[2].blocks(), 2);
}

TEST(OwnedBlocksTest, RanksShareAUnitWithoutGapsOrOverlap) {
  for (int64_t elements : {1, 127, 128, 129, 1000, 12800}) {
    for (int ranks : {1, 2, 3, 8}) {
      int64_t next = 0, least = elements, most = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const BlockRange owned = OwnedBlocks(elements, rank, ranks);
        EXPECT_EQ(owned.first, next);
        next = owned.end();
        least = std::min(least, owned.count);
        most = std::max(most, owned.count);
      }
      EXPECT_EQ(next, (elements + kBlockElements - 1) / kBlockElements);
      EXPECT_LE(most - least, 1);
    }
  }
}

TEST(OwnedBlocksTest, RanksShareAFragment) {
  const auto fragments =
      CutFragments(*LayOutTransformer(Shape()), {.rule = FragmentRule::kStrided, .count = 3});
  for (const FragmentLayout& fragment : *fragments) {
    for (int ranks : {1, 2, 5}) {
      std::set<int64_t> blocks;
      int64_t elements = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto owned = OwnedBlocks(fragment, rank, ranks);
        elements += ElementsOf(owned, fragment.elements);
        for (size_t i = 0; i < owned.size(); ++i) {
          if (i > 0) {
            EXPECT_GT(owned[i].first, owned[i - 1].end());
          }
          for (int64_t b = owned[i].first; b < owned[i].end(); ++b)
            EXPECT_TRUE(blocks.insert(b).second);
        }
      }
      EXPECT_EQ(static_cast<int64_t>(blocks.size()), fragment.blocks());
      EXPECT_EQ(elements, fragment.elements);
    }
  }
}

TEST(OwnedBlocksTest, TheLastBlockMayBeShort) {
  EXPECT_EQ(ElementsOf(BlockRange{2, 0}, 200), 0);
  EXPECT_EQ(ElementsOf(BlockRange{0, 2}, 200), 200);
  EXPECT_EQ(ElementsOf(BlockRange{1, 1}, 200), 72);
  EXPECT_EQ(ElementsOf(BlockRange{0, 1}, 200), 128);
}

}  // namespace
}  // namespace longhaul
