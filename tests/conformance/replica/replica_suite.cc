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

TEST_P(ReplicaSuite, BeginsAtAnyStep) {
  const auto replica = Make();
  EXPECT_TRUE(replica->Step(1000).ok());
  EXPECT_TRUE(replica->Step(7).ok());
}

TEST_P(ReplicaSuite, EvaluatesWrittenParametersAndChangesNothing) {
  const auto trained = Make(), written = Make();
  ASSERT_TRUE(trained->Step(1).ok());
  const Parameters parameters = ReadAll(*trained);
  const auto stats = trained->Evaluate();
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_GT(stats->tokens, 0);
  EXPECT_EQ(ReadAll(*trained), parameters);
  for (size_t unit = 0; unit < parameters.size(); ++unit) {
    ASSERT_TRUE(written->Write(static_cast<int>(unit), 0, parameters[unit]).ok());
  }
  EXPECT_EQ(written->Evaluate()->loss, stats->loss);
}

TEST_P(ReplicaSuite, GathersItsOwnValues) {
  const auto replica = Make();
  const std::vector<int64_t> values = {5, -1};
  EXPECT_THAT(*replica->AllGather(values), testing::ElementsAre(values));
}

}  // namespace
}  // namespace longhaul
