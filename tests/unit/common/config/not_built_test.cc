// What is refused since it is not built yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/config/job_spec.h"
#include "tests/unit/common/config/small_spec.h"

namespace longhaul {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

TEST(NotBuiltTest, EveryRefusalSaysWhatToDo) {
  const std::string cuda = "train.device=cuda";
  for (const auto& [assignments, fields] :
       std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>{
           {{cuda, "train.blocks=fused"}, {"train.blocks"}},
           {{cuda, "inner.adamw.moments=bfloat16"}, {"inner.adamw.moments"}},
           {{cuda, "inner.muon.adamw.moments=bfloat16"}, {"inner.muon.adamw.moments"}},
           {{cuda, "inner.onebit_adam={freeze_step: 10}"}, {"inner.onebit_adam"}},
           {{cuda, "evaluation.beside_training=true"}, {"evaluation.beside_training"}}}) {
    std::vector<SpecViolation> violations;
    const absl::Status status = ResolveJobSpec(Small(assignments), &violations).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << assignments.back() << status;
    std::vector<std::string> found;
    for (const SpecViolation& v : violations) {
      found.push_back(v.field);
      EXPECT_FALSE(v.hint.empty()) << v.field;
    }
    EXPECT_THAT(found, ElementsAreArray(fields)) << assignments.back();
  }
}

TEST(NotBuiltTest, InvalidComesBeforeUnimplemented) {
  const absl::Status status =
      ResolveJobSpec(Small({"train.device=cuda", "train.blocks=fused", "sync.tau=30"})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("sync.tau"));
  EXPECT_THAT(status.message(), HasSubstr("train.blocks"));
}

}  // namespace
}  // namespace longhaul
