#include "common/config/model_kinds.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

TEST(ModelKindsTest, EveryKindOfTheContractHasARow) {
  const auto* const kinds = v1::ModelSpec::descriptor()->FindOneofByName("kind");
  ASSERT_GT(kinds->field_count(), 0);
  for (int i = 0; i < kinds->field_count(); ++i) {
    v1::ModelSpec spec;
    spec.GetReflection()->MutableMessage(&spec, kinds->field(i));
    const ModelKind* const kind = ModelKindOf(spec);
    ASSERT_NE(kind, nullptr) << kinds->field(i)->name();
    EXPECT_EQ(kind->field, absl::StrCat("model.", std::string(kinds->field(i)->name())));
    // What is empty lacks something, and neither check ends the program.
    ViolationList violations;
    kind->validate(spec, violations);
    EXPECT_FALSE(violations.empty()) << kind->field;
    EXPECT_FALSE(kind->lay_out(spec).ok()) << kind->field;
    kind->fill(spec);
  }
  EXPECT_EQ(ModelKindOf({}), nullptr);
  EXPECT_FALSE(Trains({}));
}

TEST(ModelKindsTest, ReportsCountWhatAKindTrainsOn) {
  v1::ModelSpec spec;
  spec.mutable_transformer();
  EXPECT_STREQ(ModelKindOf(spec)->unit_name, "tokens");
  EXPECT_TRUE(Trains(spec));
  spec.mutable_graph_sage();
  EXPECT_STREQ(ModelKindOf(spec)->unit_name, "nodes");
  spec.mutable_graph_sage()->mutable_links();
  EXPECT_STREQ(ModelKindOf(spec)->unit_name, "pairs");
  spec.mutable_synthetic();
  EXPECT_FALSE(Trains(spec));
}

}  // namespace
}  // namespace longhaul
