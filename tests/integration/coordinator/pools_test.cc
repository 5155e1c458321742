// PoolService: names, leases, incarnations.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/capabilities.h"
#include "gmock/gmock.h"
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

TEST_F(PoolsTest, SubmitWarnsOfANameOfDataThatNoPoolHas) {
  HandPool pool(address(), "site-b");
  ASSERT_TRUE(pool.Join().ok());
  v1::SubmitJobRequest request;
  *request.mutable_spec() = Spec("misspelt");
  v1::DataSpec& data = *request.mutable_spec()->mutable_data();
  data.mutable_text()->set_path("text");
  data.add_pools()->set_pool("site-bb");
  data.mutable_pools(0)->mutable_text()->set_path("other");
  for (const bool validate_only : {true, false}) {
    request.set_validate_only(validate_only);
    const auto response = Submit(request);
    ASSERT_TRUE(response.ok()) << response.status();
    const auto& warnings = response->job().warnings();
    EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [](const std::string& warning) {
      return warning.find("is 'site-bb' meant to be 'site-b'?") != std::string::npos;
    })) << response->job().DebugString();
  }
}

// Together they are 8 MiB, twice what gRPC takes in one message.
TEST_F(PoolsTest, PoolsThatDoNotFitOneMessageComeInPages) {
  const auto stub = v1::PoolService::NewStub(MakeChannel({.address = address()}));
  constexpr int kPools = 512;
  v1::JoinRequest join;
  join.set_incarnation("0123456789abcdef");
  join.set_ranks(1);
  for (int c = 0; c < 256; ++c) join.add_capabilities(std::string(64, 'c'));
  for (int p = 0; p < kPools; ++p) {
    join.set_pool(absl::StrFormat("site-%03d", p));
    v1::JoinResponse joined;
    const grpc::Status status = stub->Join(Context().get(), join, &joined);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  v1::ListPoolsRequest request;
  std::vector<std::string> names;
  int pages = 0;
  do {
    v1::ListPoolsResponse page;
    const grpc::Status status = stub->ListPools(Context().get(), request, &page);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const v1::Pool& pool : page.pools()) names.push_back(pool.name());
    request.set_page_token(page.next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(names.size(), kPools);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), kPools);
  EXPECT_GT(pages, 3);
  for (const char* token : {"guess", "after-", "after-Site A"}) {
    request.set_page_token(token);
    v1::ListPoolsResponse page;
    EXPECT_EQ(stub->ListPools(Context().get(), request, &page).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
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
  // A spec that the agent has is not sent again.
  v1::HeartbeatRequest known;
  known.set_has_spec_of(job->job().id());
  EXPECT_EQ(pool.Heartbeat(known)->assignment().job_id(), job->job().id());
  EXPECT_FALSE(pool.Heartbeat(known)->assignment().has_spec());
  known.set_has_spec_of("another");
  EXPECT_TRUE(pool.Heartbeat(known)->assignment().has_spec());
  EXPECT_EQ(List()[0].state(), v1::ASSIGNED);
  EXPECT_EQ(List()[0].job(), "work");
  ASSERT_TRUE(pool.OpenPlan(job->job().id()).ok());
  EXPECT_EQ(List()[0].state(), v1::PARTICIPATING);
}

TEST_F(PoolsTest, NodesOfAPoolFormAGroup) {
  const auto stub = v1::PoolService::NewStub(MakeChannel({.address = address()}));
  const auto join = [&](const v1::JoinRequest& request) {
    v1::JoinResponse response;
    return Finished(stub->Join(Context().get(), request, &response), response);
  };
  v1::JoinRequest first;
  first.set_pool("site-a");
  first.set_incarnation("aaaaaaaaaaaaaaaa");
  first.set_ranks(2);
  first.set_host("one");
  first.set_nodes(2);
  first.set_address("127.0.0.1");
  for (const char* can : {"model:synthetic", "codec:fp32"}) first.add_capabilities(can);
  first.set_rendezvous_port(7001);
  first.set_rendezvous_token("0123456789abcdef");
  v1::JoinRequest second = first;
  second.set_incarnation("bbbbbbbbbbbbbbbb");
  second.set_ranks(3);
  second.set_host("two");
  second.set_address("::1");
  second.set_rendezvous_port(7002);
  second.set_rendezvous_token("fedcba9876543210");

  const auto alone = join(first);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->node().incarnation(), "");
  EXPECT_EQ(alone->node().missing(), "node 1 of 2");
  clock_.Advance(absl::Seconds(4));
  std::vector<v1::Pool> pools = List();
  ASSERT_EQ(pools.size(), 1u);
  EXPECT_EQ(pools[0].state(), v1::FORMING);
  EXPECT_EQ(pools[0].waiting_for(), "node 1 of 2, for 4s");
  EXPECT_EQ(pools[0].nodes(0).address(), "127.0.0.1");

  const auto whole = join(second);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->node().node(), 1);
  EXPECT_EQ(whole->node().first_rank(), 2);
  EXPECT_EQ(whole->node().ranks(), 5);
  EXPECT_EQ(whole->node().rendezvous(), "127.0.0.1:7001");
  EXPECT_EQ(whole->node().rendezvous_token(), "0123456789abcdef");
  const std::string group = whole->node().incarnation();
  EXPECT_EQ(group.size(), 32u);
  pools = List();
  EXPECT_EQ(pools[0].state(), v1::IDLE);
  EXPECT_EQ(pools[0].ranks(), 5);
  EXPECT_EQ(pools[0].nodes(1).host(), "two");
  EXPECT_EQ(pools[0].nodes(1).address(), "::1");

  // Ranks work under the group's incarnation.
  const auto job = Submit(Spec("work", 1));
  ASSERT_TRUE(job.ok());
  HandPool node(address(), "site-a", "aaaaaaaaaaaaaaaa"), ranks(address(), "site-a", group);
  const auto heartbeat = node.Heartbeat();
  ASSERT_TRUE(heartbeat.ok());
  EXPECT_EQ(heartbeat->assignment().job_id(), job->job().id());
  EXPECT_EQ(heartbeat->node().incarnation(), group);
  EXPECT_FALSE(node.OpenPlan(job->job().id()).ok());
  EXPECT_TRUE(ranks.OpenPlan(job->job().id()).ok());
}

TEST_F(PoolsTest, ANodeThatMakesRoomIsShownAtItsNewNumber) {
  const auto stub = v1::PoolService::NewStub(MakeChannel({.address = address()}));
  const auto join = [&](const std::string& incarnation, const std::string& host, int number,
                        bool given) {
    v1::JoinRequest request;
    request.set_pool("site-a");
    request.set_incarnation(incarnation);
    request.set_ranks(1);
    request.set_host(host);
    request.set_nodes(2);
    request.set_address("127.0.0.1");
    request.set_rendezvous_port(7001);
    request.set_rendezvous_token("0123456789abcdef");
    request.set_node(number);
    request.set_node_given(given);
    v1::JoinResponse response;
    return Finished(stub->Join(Context().get(), request, &response), response);
  };
  ASSERT_TRUE(join("aaaaaaaaaaaaaaaa", "one", 0, true).ok());
  const auto fixed = join("bbbbbbbbbbbbbbbb", "two", 0, false);
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_EQ(fixed->node().node(), 0);
  const std::vector<v1::Pool> pools = List();
  ASSERT_EQ(pools[0].nodes_size(), 2);
  EXPECT_EQ(pools[0].nodes(0).host(), "two");
  EXPECT_EQ(pools[0].nodes(1).host(), "one");
}

TEST_F(PoolsTest, MalformedNodesAreRefusedWithTheField) {
  const auto stub = v1::PoolService::NewStub(MakeChannel({.address = address()}));
  v1::JoinRequest good;
  good.set_pool("site-a");
  good.set_incarnation("aaaaaaaaaaaaaaaa");
  good.set_ranks(1);
  good.set_nodes(2);
  good.set_address("127.0.0.1");
  good.set_rendezvous_port(7001);
  good.set_rendezvous_token("0123456789abcdef");
  const auto field = [&](const std::function<void(v1::JoinRequest&)>& spoil) {
    v1::JoinRequest request = good;
    spoil(request);
    v1::JoinResponse response;
    const absl::Status status = FromGrpcStatus(stub->Join(Context().get(), request, &response));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    const auto violations = FieldViolationsOf(status);
    return violations.empty() ? ReasonOf(status) : violations[0].field;
  };
  EXPECT_EQ(field([](auto& r) { r.set_address("no host"); }), "address");
  EXPECT_EQ(field([](auto& r) { r.clear_address(); }), "address");
  EXPECT_EQ(field([](auto& r) { r.set_ranks(257); }), "ranks");
  EXPECT_EQ(field([](auto& r) { r.set_address(std::string(300, 'a')); }), "address");
  EXPECT_EQ(field([](auto& r) { r.set_rendezvous_port(0); }), "rendezvous_port");
  EXPECT_EQ(field([](auto& r) { r.set_rendezvous_port(70000); }), "rendezvous_port");
  EXPECT_EQ(field([](auto& r) { r.set_rendezvous_token("short"); }), "rendezvous_token");
  EXPECT_EQ(field([](auto& r) { r.set_running("no incarnation"); }), "incarnation");
  EXPECT_EQ(field([](auto& r) { r.set_node(2); }), "NODES_DISAGREE");
  EXPECT_EQ(field([](auto& r) { r.set_nodes(257); }), "NODES_DISAGREE");
  EXPECT_TRUE(List().empty());
}

TEST_F(PoolsTest, TellsWhichKeptJobsHaveEndedForGood) {
  const std::string ended = Submit(Spec("ended", 1))->job().id();
  const std::string deleted = Submit(Spec("deleted", 1))->job().id();
  const std::string lives = Submit(Spec("lives", 1))->job().id();
  for (const std::string& job : {ended, deleted}) {
    v1::CancelJobRequest request;
    v1::CancelJobResponse response;
    request.set_job(job);
    ASSERT_TRUE(jobs_->CancelJob(Context().get(), request, &response).ok());
  }
  v1::DeleteJobRequest request;
  v1::DeleteJobResponse response;
  request.set_job(deleted);
  ASSERT_TRUE(jobs_->DeleteJob(Context().get(), request, &response).ok());
  v1::JoinRequest join;
  join.set_pool("site-a");
  join.set_incarnation("aaaaaaaaaaaaaaaa");
  join.set_ranks(1);
  // The name of a job is no id, since another job may have it.
  for (const std::string& job : {lives, ended, std::string("another-coordinators"), deleted,
                                 std::string("ended"), std::string("deleted")})
    join.add_kept_jobs(job);
  const auto stub = v1::PoolService::NewStub(MakeChannel({.address = address()}));
  v1::JoinResponse joined;
  ASSERT_TRUE(stub->Join(Context().get(), join, &joined).ok());
  EXPECT_THAT(std::vector<std::string>(joined.ended_jobs().begin(), joined.ended_jobs().end()),
              testing::ElementsAre(ended, deleted));
  // A heartbeat may ask, too.
  v1::HeartbeatRequest heartbeat;
  heartbeat.set_pool("site-a");
  heartbeat.set_incarnation("aaaaaaaaaaaaaaaa");
  *heartbeat.mutable_kept_jobs() = join.kept_jobs();
  v1::HeartbeatResponse beaten;
  ASSERT_TRUE(stub->Heartbeat(Context().get(), heartbeat, &beaten).ok());
  EXPECT_THAT(std::vector<std::string>(beaten.ended_jobs().begin(), beaten.ended_jobs().end()),
              testing::ElementsAre(ended, deleted));
  join.mutable_kept_jobs()->Clear();
  for (int i = 0; i < 257; ++i) join.add_kept_jobs("a");
  const absl::Status many = FromGrpcStatus(stub->Join(Context().get(), join, &joined));
  EXPECT_EQ(FieldViolationsOf(many)[0].field, "kept_jobs");
  join.mutable_kept_jobs()->Clear();
  join.add_kept_jobs(std::string(256, 'a'));
  EXPECT_TRUE(absl::IsInvalidArgument(FromGrpcStatus(stub->Join(Context().get(), join, &joined))));
}

TEST_F(PoolsTest, ANodeThatAsksForItsKeptJobsAgainAndAgainGetsNoAnswer) {
  const std::string ended = Submit(Spec("ended", 1))->job().id();
  v1::CancelJobRequest cancel;
  v1::CancelJobResponse cancelled;
  cancel.set_job(ended);
  ASSERT_TRUE(jobs_->CancelJob(Context().get(), cancel, &cancelled).ok());
  HandPool pool(address(), "site-a"), other(address(), "site-b");
  v1::HeartbeatRequest asking;
  asking.add_kept_jobs(ended);
  ASSERT_TRUE(pool.Join().ok());
  int told = 0;
  for (int i = 0; i < 20; ++i) {
    const auto answer = pool.Heartbeat(asking);
    ASSERT_TRUE(answer.ok()) << answer.status();
    told += answer->ended_jobs_size();
  }
  EXPECT_GE(told, 1);
  EXPECT_LT(told, 10);
  ASSERT_TRUE(other.Join().ok());
  EXPECT_EQ(other.Heartbeat(asking)->ended_jobs_size(), 1) << "another pool has its own allowance";
}

TEST_F(PoolsTest, ALargeSpecComesWithTheAssignmentUnlessItIsThere) {
  const auto job = Submit(LargeSpec("large", 40));
  ASSERT_TRUE(job.ok()) << job.status();
  v1::JoinRequest join;
  join.set_pool("site-a");
  join.set_incarnation("aaaaaaaaaaaaaaaa");
  join.set_ranks(1);
  for (const std::string& need : NeedsOf(job->job().spec())) join.add_capabilities(need);
  const auto stub = v1::PoolService::NewStub(MakeChannel({.address = address()}));
  v1::JoinResponse joined;
  ASSERT_TRUE(stub->Join(Context().get(), join, &joined).ok());
  EXPECT_EQ(joined.assignment().job_id(), job->job().id());
  EXPECT_EQ(joined.assignment().spec().data().pools_size(), 40);
  v1::HeartbeatRequest heartbeat;
  heartbeat.set_pool("site-a");
  heartbeat.set_incarnation("aaaaaaaaaaaaaaaa");
  v1::HeartbeatResponse beaten;
  ASSERT_TRUE(stub->Heartbeat(Context().get(), heartbeat, &beaten).ok());
  EXPECT_EQ(beaten.assignment().spec().data().pools_size(), 40);
  heartbeat.set_has_spec_of(job->job().id());
  ASSERT_TRUE(stub->Heartbeat(Context().get(), heartbeat, &beaten).ok());
  EXPECT_EQ(beaten.assignment().job_id(), job->job().id());
  EXPECT_FALSE(beaten.assignment().has_spec());
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
