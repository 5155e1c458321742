// What a job may specify about 1-bit Adam and 0/1 Adam.
#include "absl/strings/str_cat.h"
#include "common/config/capabilities.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/config/small_spec.h"

namespace longhaul {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(OneBitAdamSpecTest, OneBitAdamHasAdamsDefaults) {
  const auto job = ResolveJobSpec(Small({"inner.onebit_adam={freeze_step: 150}"}));
  ASSERT_TRUE(job.ok()) << job.status();
  const v1::OneBitAdamSpec& onebit = job->spec.inner().onebit_adam();
  EXPECT_FALSE(job->spec.inner().has_adamw());
  EXPECT_EQ(onebit.lr(), 1e-3);
  EXPECT_EQ(onebit.beta1(), 0.9);
  EXPECT_EQ(onebit.beta2(), 0.99);
  EXPECT_EQ(onebit.eps(), 1e-8);
  EXPECT_EQ(onebit.weight_decay(), 1.0 / 600);
  EXPECT_EQ(onebit.freeze_ratio(), 0.96);
  EXPECT_EQ(onebit.scale_block(), 512);
  EXPECT_EQ(onebit.local_step_clipper(), 0);
  EXPECT_THAT(job->warnings, IsEmpty());
}

TEST(OneBitAdamSpecTest, LocalStepsHaveThePapersInterval) {
  const auto job = ResolveJobSpec(Small({"inner.onebit_adam={local_step_scaler: 100}"}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.inner().onebit_adam().local_step_clipper(), 16);
  EXPECT_THAT(NeedsOf(job->spec), Contains("optimizer:onebit_local_steps"));
  EXPECT_THAT(FaultsWith({"inner.onebit_adam={local_step_scaler: 100, local_step_clipper: 4, "
                          "var_update_scaler: 16, var_freeze_step: 300}"}),
              IsEmpty());
}

// Each of the fragments is pushed once in sync.h steps, and there the ranks synchronise.
TEST(OneBitAdamSpecTest, WarnsOfAnIntervalThatIsNeverReached) {
  const auto job = [](int clipper) {
    return ResolveJobSpec(Small({absl::StrCat(
        "inner.onebit_adam={local_step_scaler: 100, local_step_clipper: ", clipper, "}")}));
  };
  ASSERT_TRUE(job(9).ok()) << job(9).status();
  ASSERT_EQ(job(9)->fragments.size(), 4u);
  EXPECT_THAT(job(9)->warnings, Contains(HasSubstr("synchronise at least every 8 steps")));
  EXPECT_THAT(job(8)->warnings, IsEmpty());
}

TEST(OneBitAdamSpecTest, TheHintForAScaleBlockCanBeFollowed) {
  std::vector<SpecViolation> violations;
  (void)ResolveJobSpec(Small({"inner.onebit_adam={scale_block: 5}"}), &violations);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_THAT(violations[0].hint, HasSubstr("2^30: one scale for each tensor"));
  EXPECT_THAT(FaultsWith({"inner.onebit_adam={scale_block: 1073741824}"}), IsEmpty());
}

TEST(OneBitAdamSpecTest, RefusesWhatOneBitAdamCannotDo) {
  for (const auto& [assignment, field] : std::vector<std::pair<std::string, std::string>>{
           {"inner.onebit_adam.lr=-1", "inner.onebit_adam.lr"},
           {"inner.onebit_adam.beta2=1", "inner.onebit_adam.beta2"},
           {"inner.onebit_adam.freeze_step=600", "inner.onebit_adam.freeze_step"},
           {"inner.onebit_adam.freeze_step=-1", "inner.onebit_adam.freeze_step"},
           {"inner.onebit_adam.freeze_ratio=1.5", "inner.onebit_adam.freeze_ratio"},
           {"inner.onebit_adam.scale_block=63", "inner.onebit_adam.scale_block"},
           {"inner.onebit_adam.var_update_scaler=-1", "inner.onebit_adam.var_update_scaler"},
           {"inner.onebit_adam.var_freeze_step=300", "inner.onebit_adam.var_freeze_step"},
           {"inner.onebit_adam.local_step_scaler=-1", "inner.onebit_adam.local_step_scaler"},
           {"inner.onebit_adam.local_step_clipper=8", "inner.onebit_adam.local_step_clipper"},
           {"inner.onebit_adam={local_step_scaler: 9, local_step_clipper: 1}",
            "inner.onebit_adam.local_step_clipper"},
           {"inner.onebit_adam={local_step_scaler: 9, var_update_scaler: 16}",
            "inner.onebit_adam.var_freeze_step"},
           {"train.device=cuda", "~inner.onebit_adam"},
           {"partition.preset=zero1", "partition.preset"},
           {"partition.preset=zero2", "partition.preset"},
           {"partition.preset=zero3", "partition.preset"},
           {"partition.preset=zeropp", "partition.preset"},
           {"partition.preset=frontier3", "partition.preset"},
           {"partition.map={optimizer: node}", "partition.map"},
           {"partition.map={gradients: {bits: 8}}", "partition.map"}}) {
    EXPECT_THAT(FaultsWith({"inner.onebit_adam={lr: 0.01}", assignment}), ElementsAre(field))
        << assignment;
  }
  EXPECT_THAT(
      FaultsWith({"inner.onebit_adam={lr: 0.01}", "partition.map={weights: {level: rank}}"}),
      IsEmpty());
}

TEST(OneBitAdamSpecTest, WarnsOfAnEarlyFreeze) {
  for (const char* early :
       {"inner.onebit_adam={freeze_step: 99}",
        "inner={onebit_adam: {freeze_step: 150}, schedule: {warmup_steps: 151}}"}) {
    const auto job = ResolveJobSpec(Small({early}));
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_THAT(job->warnings, ElementsAre(testing::HasSubstr("inner.onebit_adam.freeze_step")));
  }
}

}  // namespace
}  // namespace longhaul
