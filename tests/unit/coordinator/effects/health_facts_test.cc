#include "coordinator/effects/health_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "tests/unit/coordinator/effects/live_job_testing.h"

namespace longhaul::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;

class HealthFactsTest : public ::testing::Test {
 protected:
  HealthFactsTest() {
    for (const std::string pool : {"a", "b"}) {
      job_->progress.Report(pool, "incarnation", 0, {});
      view_.participants.push_back({.pool = pool, .start_step = 0, .live = pool == "a"});
    }
  }

  HealthFacts Facts() { return HealthFactsOf(*job_, view_); }

  const std::shared_ptr<LiveJob> job_ = RunningSyntheticJob();
  JobView view_;
};

TEST_F(HealthFactsTest, HaveEachPoolsLossOfSharedAndOfOwnParameters) {
  job_->progress.AddEvaluation({.step = 10, .version = 1, .loss = 3, .site = "a"});
  job_->progress.AddEvaluation({.step = 10, .version = 1, .loss = 5, .site = "b"});
  job_->progress.AddEvaluation({.step = 10, .version = 1, .loss = 2, .pool = "b"});
  const auto losses = [](const std::string& name, auto outer, auto own) {
    return AllOf(Field(&HealthFacts::Pool::name, name),
                 Field(&HealthFacts::Pool::outer_loss, outer),
                 Field(&HealthFacts::Pool::own_loss, own));
  };
  EXPECT_THAT(Facts().pools, ElementsAre(losses("a", std::optional(3.0), std::nullopt),
                                         losses("b", std::optional(5.0), std::optional(2.0))));
}

TEST_F(HealthFactsTest, HaveTheMeanCosineOfTheFragmentsThatHaveOne) {
  EXPECT_EQ(Facts().cosine, std::nullopt);
  job_->progress.SetCommit({.round = {0, 3}, .contribution_cosine = 0.5});
  job_->progress.SetCommit({.round = {1, 2}});
  EXPECT_EQ(Facts().cosine, 0.5);
  EXPECT_EQ(Facts().rounds, 5);
  job_->progress.SetCommit({.round = {1, 3}, .contribution_cosine = -0.1});
  EXPECT_EQ(Facts().cosine, 0.2);
}

TEST_F(HealthFactsTest, APoolThatIsLostDoesNotTrain) {
  EXPECT_THAT(Facts().pools, ElementsAre(Field(&HealthFacts::Pool::trains, true),
                                         Field(&HealthFacts::Pool::trains, false)));
}

}  // namespace
}  // namespace longhaul::coordinator
