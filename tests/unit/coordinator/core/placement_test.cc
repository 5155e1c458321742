// Pools that cannot do a job, and jobs that lose a part of their pools before they begin.
#include "tests/unit/coordinator/core/coordinator_testing.h"

namespace longhaul::coordinator {
namespace {

class PlacementTest : public CoordinatorTest {
 protected:
  // Its ranks began the job, so it begins again as incarnation 2.
  void BeginsAgain(const std::string& pool) {
    JoinPool join{pool, "2", 1};
    join.replaces = "1";
    Do(join);
  }
};

TEST_F(PlacementTest, AFaultThatEveryPoolReportsTwiceIsTheJobs) {
  BeginJob();
  Heartbeat heartbeat{"a", "1", "j"};
  heartbeat.fault = JobFault{"NOT_FOUND", "no data", "data.path", "mount it"};
  const Decision first = Do(heartbeat);
  EXPECT_EQ(One<PoolSetAside>(first.notices).retry_after, absl::Seconds(5));
  EXPECT_EQ(One<ReleasePool>(first.notices).pool, "a");
  ASSERT_EQ(View().set_aside.size(), 1u);
  EXPECT_EQ(core_.pools()[0].set_aside[0].fault.field, "data.path");
  At(4);
  EXPECT_FALSE(Answered<GrantLease>(Heartbeat{"a", "1"}).assignment.has_value());
  At(5);
  EXPECT_EQ(Answered<GrantLease>(Heartbeat{"a", "1"}).assignment->job, "j");
  BeginsAgain("a");
  heartbeat.incarnation = "2";
  const EndJob end = One<EndJob>(Do(heartbeat).notices);
  EXPECT_EQ(end.state, JobState::kFailed);
  EXPECT_EQ(end.fault->message, "no data");
  EXPECT_EQ(end.fault->pool, "a");
}

// One pool finds the fault later than the other. The first one's must not end the second one's try.
TEST_F(PlacementTest, AFaultThatPoolsReportOneAfterTheOtherIsTheJobs) {
  Do(SubmitJob{"pair", Options("pair", 2)});
  for (const char* pool : {"a", "b"}) Do(JoinPool{pool, "1", 1});
  const auto fails = [&](const char* pool) {
    Heartbeat heartbeat{pool, "1", "pair"};
    heartbeat.fault = JobFault{"NOT_FOUND", "no data", "data.path"};
    return Do(heartbeat);
  };
  fails("a");
  At(2);
  EXPECT_EQ(One<PoolSetAside>(fails("b").notices).pool, "b");
  At(8);
  for (const char* pool : {"a", "b"}) Do(Heartbeat{pool, "1"});
  fails("a");
  At(10);
  EXPECT_EQ(One<EndJob>(fails("b").notices).state, JobState::kFailed);
}

TEST_F(PlacementTest, AContributionEndsAPoolsFailures) {
  BeginJob();
  Heartbeat heartbeat{"a", "1", "j"};
  heartbeat.fault = JobFault{"NOT_FOUND", "no data", "data.path"};
  Do(heartbeat);
  At(5);
  Do(Tick{});
  BeginsAgain("a");
  Do(RankReady{"j", "a", "2", 0});
  EXPECT_EQ(View().set_aside.size(), 1u);
  Do(ContributionComplete{{"j", "a", "2", {0, 0, RoundKind::kSeed}}});
  EXPECT_TRUE(View().set_aside.empty());
}

TEST_F(PlacementTest, AJobThatLostPartOfItsPoolsReleasesTheRestForAnotherJob) {
  Do(SubmitJob{"pair", Options("pair", 2)});
  Do(SubmitJob{"three", Options("three", 3)});
  Do(JoinPool{"a", "1", 1});
  EXPECT_FALSE(core_.pools()[0].assignment.has_value());
  Do(JoinPool{"b", "1", 1});
  EXPECT_TRUE(core_.pools()[0].assignment.has_value() && core_.pools()[1].assignment.has_value());
  const Decision left = Do(LeavePool{"b", "1"});
  std::vector<std::string> released;
  for (const ReleasePool& release : All<ReleasePool>(left.notices))
    released.push_back(release.pool);
  EXPECT_EQ(released, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(All<StorePlace>(left.records).size(), 2u);
  EXPECT_FALSE(core_.pools()[0].assignment.has_value());
  EXPECT_NE(View("pair").waiting->what, "");
  // When the group is complete again, both nodes have their places.
  EXPECT_EQ(Answered<GrantLease>(JoinPool{"b", "2", 1}).assignment->ordinal, 1);
  EXPECT_EQ(core_.place("pair", "a")->ordinal, 0);
  EXPECT_TRUE(core_.place("pair", "a")->live);
}

TEST_F(PlacementTest, AJobThatLostPartOfItsPoolsKeepsTheRestIfNoOtherJobGains) {
  Do(SubmitJob{"pair", Options("pair", 2)});
  Do(JoinPool{"a", "1", 1});
  Do(JoinPool{"b", "1", 1});
  Do(LeavePool{"b", "1"});
  EXPECT_TRUE(core_.place("pair", "a")->live);
  EXPECT_NE(View("pair").waiting->what, "");
  Do(SubmitJob{"next", Options("next", 1)});
  EXPECT_EQ(Answered<GrantLease>(Heartbeat{"a", "1"}).assignment->job, "next");
}

TEST_F(PlacementTest, AJobThatLostPartOfItsPoolsReleasesTheRestForTheirMemory) {
  core_ = Coordinator({.memory = 10}, {}, now_);
  JobOptions pair = Options("pair", 2), other = Options("other", 1);
  pair.memory = other.memory = 10;
  pair.pool_names = {"a", "b"};
  other.pool_names = {"c"};
  Do(SubmitJob{"pair", pair});
  Do(SubmitJob{"other", other});
  for (const char* pool : {"a", "b", "c"}) Do(JoinPool{pool, "1", 1});
  EXPECT_FALSE(core_.place("other", "c").has_value());
  Do(LeavePool{"b", "1"});
  EXPECT_TRUE(core_.place("other", "c")->live);
}

}  // namespace
}  // namespace longhaul::coordinator
