#include "common/config/optimizer_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "common/config/job_spec.h"

namespace longhaul {
namespace {

// A spec with every member of the oneof in turn.
std::vector<v1::JobSpec> SpecsOfEachKind() {
  std::vector<v1::JobSpec> specs;
  const auto* oneof = v1::InnerOptimizerSpec::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < oneof->field_count(); ++i) {
    v1::JobSpec& spec = specs.emplace_back();
    spec.set_name("job");
    auto* model = spec.mutable_model()->mutable_transformer();
    model->set_layers(2), model->set_dim(32), model->set_heads(2), model->set_ff_dim(64);
    model->set_context(32);
    spec.mutable_data()->mutable_text()->set_path("/data");
    spec.mutable_train()->set_steps(100);
    spec.mutable_train()->set_batch(4);
    v1::InnerOptimizerSpec& inner = *spec.mutable_inner();
    inner.GetReflection()->MutableMessage(&inner, oneof->field(i));
  }
  return specs;
}

TEST(OptimizerKindsTest, EachKindHasARow) {
  std::set<int> rows;
  for (const OptimizerKind& kind : OptimizerKinds()) rows.insert(kind.kind);
  EXPECT_EQ(rows.size(), OptimizerKinds().size());
  for (const v1::JobSpec& spec : SpecsOfEachKind()) {
    EXPECT_EQ(OptimizerKindOf(spec.inner()).kind, spec.inner().kind_case())
        << spec.inner().ShortDebugString() << " has no row in optimizer_kinds.cc";
  }
  EXPECT_EQ(OptimizerKindOf({}).kind, v1::InnerOptimizerSpec::kAdamw);
}

TEST(OptimizerKindsTest, ARowsDefaultsAreOfItsFieldAndAllThatItRequires) {
  for (const v1::JobSpec& spec : SpecsOfEachKind()) {
    const OptimizerKind& kind = OptimizerKindOf(spec.inner());
    const auto* field = v1::InnerOptimizerSpec::descriptor()->FindFieldByNumber(kind.kind);
    for (const FieldDefault& entry : kind.defaults) {
      EXPECT_THAT(std::string(entry.path), testing::StartsWith("inner." + field->name() + "."));
      EXPECT_EQ(DefaultOf(entry.path), entry.value);
    }
    // With its defaults it is accepted, and has a learning rate and weight decay.
    const auto resolved = ResolveJobSpec(spec);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    const auto& inner = resolved->spec.inner();
    const auto& own = inner.GetReflection()->GetMessage(inner, field);
    for (const char* name : {"lr", "weight_decay"}) {
      const auto* number = own.GetDescriptor()->FindFieldByName(name);
      ASSERT_NE(number, nullptr) << field->name();
      EXPECT_GT(own.GetReflection()->GetDouble(own, number), 0) << field->name() << "." << name;
    }
  }
}

TEST(OptimizerKindsTest, WhatASpecNeedsIsSaidByWorkersThatHaveIt) {
  for (v1::JobSpec& spec : SpecsOfEachKind()) {
    spec.mutable_offload()->set_optimizer(true);
    std::set<std::string> needs;
    const OptimizerKind& kind = OptimizerKindOf(spec.inner());
    kind.add_needs(spec, needs);
    const std::set<std::string> said(kind.capabilities.begin(), kind.capabilities.end());
    for (const std::string& need : needs) EXPECT_EQ(said.count(need), 1u) << need;
  }
}

TEST(OptimizerKindsTest, StateIsCountedInBytes) {
  const OptimizerSizes sizes = {
      .adamw_bytes = 1200, .parameters = 100, .matrix_elements = 60, .ranks = 2};
  v1::InnerOptimizerSpec inner;
  EXPECT_EQ(OptimizerKindOf(inner).state_bytes(inner, sizes), 1200);
  inner.mutable_muon();
  EXPECT_DOUBLE_EQ(OptimizerKindOf(inner).state_bytes(inner, sizes), 1200 - 4 * 60);
  inner.mutable_onebit_adam();
  EXPECT_DOUBLE_EQ(OptimizerKindOf(inner).state_bytes(inner, sizes), 1200 + 600);
  inner.mutable_onebit_adam()->set_local_step_scaler(10);
  EXPECT_DOUBLE_EQ(OptimizerKindOf(inner).state_bytes(inner, sizes), 1200 + 600 + 800);
}

}  // namespace
}  // namespace longhaul
