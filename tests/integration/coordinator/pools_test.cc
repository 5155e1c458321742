// PoolService: names, leases, incarnations.
#include "tests/integration/coordinator/coordinator_fixture.h"

namespace longhaul {
namespace {

class PoolsTest : public CoordinatorFixture {
 protected:
  std::vector<v1::Pool> List() {
    const auto stub = v1::PoolService::NewStub(MakeChannel({.address = address()}));
    v1::ListPoolsResponse response;
    EXPECT_TRUE(stub->ListPools(Context().get(), {}, &response).ok());
    return {response.pools().begin(), response.pools().end()};
  }
};

TEST_F(PoolsTest, MalformedNamesAreRefusedWithTheField) {
  HandPool pool(address(), "Site A", "xyz");
  const absl::Status status = pool.Join().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  ASSERT_EQ(FieldViolationsOf(status).size(), 2u);
  EXPECT_EQ(FieldViolationsOf(status)[0].field, "pool");
  EXPECT_EQ(FieldViolationsOf(status)[1].field, "incarnation");
}

TEST_F(PoolsTest, AnotherIncarnationMustWaitForTheLease) {
  HandPool first(address(), "site-a", "aaaaaaaaaaaaaaaa"),
      second(address(), "site-a", "bbbbbbbbbbbbbbbb");
  ASSERT_TRUE(first.Join().ok());
  ASSERT_TRUE(first.Join().ok());
  const absl::Status refused = second.Join().status();
  EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
  EXPECT_EQ(RetryDelayOf(refused), absl::Seconds(10));
  EXPECT_TRUE(absl::IsAborted(second.Heartbeat().status()));
  clock_.Advance(absl::Seconds(11));
  EXPECT_TRUE(second.Join().ok());
  EXPECT_TRUE(absl::IsAborted(first.Heartbeat().status()));
}

TEST_F(PoolsTest, ASilentPoolIsLostAndOneThatLeftIsForgotten) {
  HandPool silent(address(), "silent"), leaver(address(), "leaver");
  ASSERT_TRUE(silent.Join().ok());
  ASSERT_TRUE(leaver.Join().ok());
  ASSERT_TRUE(leaver.Leave().ok());
  clock_.Advance(absl::Seconds(11));
  EXPECT_TRUE(absl::IsNotFound(silent.Heartbeat().status()));
  const std::vector<v1::Pool> pools = List();
  ASSERT_EQ(pools.size(), 1u);
  EXPECT_EQ(pools[0].name(), "silent");
  EXPECT_EQ(pools[0].state(), v1::LOST);
}

TEST_F(PoolsTest, StatesFollowTheWork) {
  HandPool pool(address(), "site-a");
  ASSERT_TRUE(pool.Join().ok());
  EXPECT_EQ(List()[0].state(), v1::IDLE);
  const auto job = Submit(Spec("work", 1));
  ASSERT_TRUE(job.ok());
  const auto heartbeat = pool.Heartbeat();
  ASSERT_TRUE(heartbeat.ok());
  EXPECT_EQ(heartbeat->assignment().job_id(), job->job().id());
  EXPECT_EQ(heartbeat->assignment().spec().name(), "work");
  EXPECT_EQ(List()[0].state(), v1::ASSIGNED);
  ASSERT_TRUE(pool.OpenPlan(job->job().id()).ok());
  EXPECT_EQ(List()[0].state(), v1::PARTICIPATING);
}

TEST_F(PoolsTest, PlansAreForPoolsOfTheJob) {
  const auto job = Submit(Spec("work", 1));
  ASSERT_TRUE(job.ok());
  HandPool stranger(address(), "stranger");
  EXPECT_TRUE(absl::IsNotFound(stranger.OpenPlan(job->job().id()).status()));
  EXPECT_TRUE(absl::IsNotFound(stranger.OpenPlan("no-such-job").status()));
  HandPool worker(address(), "worker");
  ASSERT_TRUE(worker.Join().ok());
  ASSERT_TRUE(stranger.Join().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(stranger.OpenPlan(job->job().id()).status()));
}

}  // namespace
}  // namespace longhaul
