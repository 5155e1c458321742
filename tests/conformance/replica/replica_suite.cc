#include "tests/conformance/replica/replica_suite.h"

namespace longhaul {
namespace {

TEST_P(ReplicaSuite, HasALayoutAndARank) {
  const auto replica = Make();
  EXPECT_GT(replica->layout().elements(), 0);
  EXPECT_EQ(replica->rank(), 0);
  EXPECT_EQ(replica->ranks(), 1);
}

TEST_P(ReplicaSuite, ReadsWhatWasWrittenAndNothingElseChanges) {
  const auto replica = Make();
  const int unit = static_cast<int>(replica->layout().units.size()) - 1;
  Parameters expected = ReadAll(*replica);
  const int64_t offset = replica->layout().units[unit].elements / 2;
  const std::vector<float> written = {3.5f, -0.0f};
  ASSERT_TRUE(replica->Write(unit, offset, written).ok());
  ASSERT_TRUE(replica->Publish({unit}).ok());
  std::copy(written.begin(), written.end(), expected[unit].begin() + offset);
  EXPECT_EQ(ReadAll(*replica), expected);
}

TEST_P(ReplicaSuite, AStepChangesEveryUnit) {
  const auto replica = Make();
  const Parameters before = ReadAll(*replica);
  const auto stats = replica->Step(1);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_GT(stats->tokens, 0);
  const Parameters after = ReadAll(*replica);
  for (size_t unit = 0; unit < before.size(); ++unit) EXPECT_NE(after[unit], before[unit]) << unit;
}

TEST_P(ReplicaSuite, EqualReplicasTakeEqualSteps) {
  const auto first = Make(), second = Make();
  EXPECT_EQ(ReadAll(*first), ReadAll(*second));
  for (int64_t step = 1; step <= 3; ++step) {
    EXPECT_EQ(first->Step(step)->loss, second->Step(step)->loss);
    EXPECT_EQ(ReadAll(*first), ReadAll(*second));
  }
}

// As after a restart: another replica has taken the steps before.
TEST_P(ReplicaSuite, BeginsAtAnyStep) {
  const auto trained = Make(), begun = Make();
  for (const int64_t step : {1, 2}) ASSERT_TRUE(trained->Step(step).ok());
  WriteAll(ReadAll(*trained), *begun);
  const auto expected = trained->Step(3), stats = begun->Step(3);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->loss, expected->loss);
  EXPECT_EQ(stats->learning_rate, expected->learning_rate);
}

TEST_P(ReplicaSuite, EachStepHasItsOwnData) {
  if (!GetParam().has_data) return;
  EXPECT_NE(Make()->Step(7)->loss, Make()->Step(1000)->loss);
}

TEST_P(ReplicaSuite, EvaluatesWrittenParametersAndChangesNothing) {
  const auto trained = Make(), written = Make();
  ASSERT_TRUE(trained->Step(1).ok());
  const Parameters parameters = ReadAll(*trained);
  const auto stats = trained->Evaluate();
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_GT(stats->tokens, 0);
  EXPECT_EQ(ReadAll(*trained), parameters);
  WriteAll(parameters, *written);
  EXPECT_EQ(written->Evaluate()->loss, stats->loss);
}

TEST_P(ReplicaSuite, GathersItsOwnValues) {
  const auto replica = Make();
  const std::vector<int64_t> values = {5, -1};
  EXPECT_THAT(*replica->AllGather(values), testing::ElementsAre(values));
}

}  // namespace
}  // namespace longhaul
