// The lease's client, and a PoolService that answers as the test decides. Over real gRPC.
#include "worker/agent/membership_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/rpc/status_details.h"
#include "tests/testing/certificates.h"
#include "tests/testing/tcp.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/agent/pool_server.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

class MembershipClientTest : public testing::Test {
 protected:
  void Start(int nodes = 1) {
    v1::JoinRequest join;
    join.set_nodes(nodes);
    join.set_pool("site-a");
    join.set_ranks(1);
    join.add_capabilities("model:synthetic");
    client_ = std::make_unique<MembershipClient>(
        MembershipClient::Options{.log = Logger({.stream = &log_}),
                                  .coordinator = server_.address,
                                  .join = join,
                                  .heartbeat = absl::Milliseconds(5),
                                  .idle_heartbeat = idle_heartbeat_,
                                  .idle_after = idle_after_,
                                  .kept_jobs_every = absl::Milliseconds(20),
                                  .kept_jobs =
                                      [this] {
                                        absl::MutexLock lock(&mutex_);
                                        return kept_;
                                      },
                                  .on_ended_jobs =
                                      [this](const std::vector<std::string>& jobs) {
                                        absl::MutexLock lock(&mutex_);
                                        kept_ended_ = jobs;
                                      },
                                  .stalled_for =
                                      [this] {
                                        absl::MutexLock lock(&mutex_);
                                        return standing_;
                                      },
                                  .complaints = absl::Milliseconds(100)},
        [this](const MembershipClient::State& state) {
          absl::MutexLock lock(&mutex_);
          told_.emplace_back(state.incarnation, state.assignment.job_id());
          specs_.push_back(state.assignment.spec().name());
          subject_ = state.subject();
        },
        [this](const absl::Status& status) {
          refused_ = status;
          ended_.Notify();
        });
  }
  void AwaitTold(const std::string& job, size_t times) {
    const auto told = [&] {
      return static_cast<size_t>(std::count_if(told_.begin(), told_.end(), [&](const auto& t) {
               return t.second == job;
             })) >= times;
    };
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&told), absl::Seconds(60)));
  }

  MembershipClient::Subject Now() {
    absl::MutexLock lock(&mutex_);
    return subject_;
  }

  std::ostringstream log_;
  PoolServer server_;
  absl::Duration idle_heartbeat_ = absl::Hours(1), idle_after_ = absl::Hours(1);
  absl::Mutex mutex_;
  std::vector<std::pair<std::string, std::string>> told_ ABSL_GUARDED_BY(mutex_);
  // The name in the spec of each answer.
  std::vector<std::string> specs_ ABSL_GUARDED_BY(mutex_);
  MembershipClient::Subject subject_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> kept_ ABSL_GUARDED_BY(mutex_) = {"a", "b"};
  std::vector<std::string> kept_ended_ ABSL_GUARDED_BY(mutex_);
  // How long the agent has done nothing.
  absl::Duration standing_ ABSL_GUARDED_BY(mutex_);
  absl::Status refused_;
  absl::Notification ended_;
  std::unique_ptr<MembershipClient> client_;
};

TEST_F(MembershipClientTest, AnIdlePoolSendsFewHeartbeatsUntilItHasAJob) {
  idle_after_ = absl::ZeroDuration();
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.lease_seconds = 3600;
  }
  Start();
  AwaitTold("", 1);
  // The next heartbeat is ten minutes away. An urgent one brings the job at once.
  server_.Assign("job");
  client_->SetDraining(Now());
  AwaitTold("job", 3);
}

// The other pools would wait for it without end.
TEST_F(MembershipClientTest, AnAgentThatStandsStillDoesNotRenewItsLease) {
  Start();
  AwaitTold("", 1);
  {
    absl::MutexLock lock(&mutex_);
    standing_ = kStandsAtLeast;
  }
  // The one that is on its way may still come.
  while (!absl::StrContains(log_.str(), "it does not renew its lease"))
    absl::SleepFor(absl::Milliseconds(1));
  const auto beats = [this] {
    absl::MutexLock lock(&server_.mutex_);
    return server_.beats.size();
  };
  const size_t before = beats();
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(beats(), before);
  {
    absl::MutexLock lock(&mutex_);
    standing_ = absl::ZeroDuration();
  }
  server_.Until([&] { return server_.beats.size() > before; });
}

TEST_F(MembershipClientTest, PassesOnEveryAnswer) {
  server_.Assign("job");
  Start();
  // Every answer is passed on, so that its receiver sees that the job is still assigned.
  AwaitTold("job", 3);
  server_.Assign("");
  AwaitTold("", 2);
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.joins[0].capabilities(0), "model:synthetic");
}

TEST_F(MembershipClientTest, KeepsTheSpecThatHeartbeatsNeedNotRepeat) {
  server_.Assign("job");
  Start();
  AwaitTold("job", 3);
  server_.Assign("another");
  AwaitTold("another", 3);
  server_.Assign("");
  AwaitTold("", 1);
  server_.Assign("another");
  AwaitTold("another", 6);
  client_.reset();
  EXPECT_EQ(server_.beats.back().has_spec_of(), "another");
  for (size_t i = 0; i < told_.size(); ++i) EXPECT_EQ(specs_[i], told_[i].second);
}

TEST_F(MembershipClientTest, AsksAtJoinAndNowAndThenWhichKeptJobsHaveEnded) {
  Start();
  AwaitTold("", 2);
  {
    absl::MutexLock lock(&server_.mutex_);
    EXPECT_EQ(server_.joins[0].kept_jobs_size(), 2);
    server_.ended_jobs = {"b", "not-asked-about"};
  }
  absl::MutexLock lock(&mutex_);
  const auto told = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return kept_ended_ == std::vector<std::string>{"b"};
  };
  EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&told), absl::Seconds(60)));
}

TEST_F(MembershipClientTest, AsksAboutAllJobsThatAreKeptHoweverMany) {
  {
    absl::MutexLock lock(&mutex_);
    kept_.clear();
    for (int i = 0; i < 600; ++i) kept_.push_back(absl::StrCat("job", i));
  }
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.ended_jobs = {"job599"};
  }
  Start();
  absl::MutexLock lock(&mutex_);
  const auto told = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !kept_ended_.empty(); };
  EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&told), absl::Seconds(60)));
}

TEST_F(MembershipClientTest, ARestartedCoordinatorSeesTheSameIncarnation) {
  server_.Assign("job");
  Start();
  AwaitTold("job", 1);
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.known = false;
    server_.joins.clear();
  }
  server_.Until([&] { return !server_.joins.empty(); });
  absl::MutexLock lock(&mutex_);
  for (const auto& [incarnation, job] : told_) EXPECT_EQ(incarnation, told_[0].first);
}

TEST_F(MembershipClientTest, DrainsAndLeavesWithItsReturn) {
  server_.Assign("job");
  Start();
  AwaitTold("job", 1);
  client_->SetDraining(Now());
  client_->SetFarewell("asked to stop", absl::Minutes(10));
  server_.Until([&] { return !server_.beats.empty() && server_.beats.back().draining(); });
  client_.reset();
  absl::MutexLock lock(&server_.mutex_);
  ASSERT_EQ(server_.leaves.size(), 1u);
  EXPECT_EQ(server_.leaves[0].reason(), "asked to stop");
  EXPECT_EQ(server_.leaves[0].return_within().seconds(), 600);
}

TEST_F(MembershipClientTest, StopsAndGetsOtherWork) {
  server_.capabilities = {"assignment:stop"};
  server_.Assign("job");
  Start();
  AwaitTold("job", 1);
  client_->SetStopping(Now());
  server_.Until([&] { return !server_.beats.empty() && server_.beats.back().stopping(); });
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.assignment.set_stop(true);
    server_.beats.clear();
  }
  server_.Until([&] { return server_.beats.size() > 1; });
  client_->SetStopped(Now());
  server_.Until([&] { return server_.beats.back().stopped(); });
  {
    absl::MutexLock lock(&server_.mutex_);
    EXPECT_FALSE(server_.beats.back().draining()) << "it takes new work";
    server_.assignment.set_stop(false);
  }
  server_.Until([&] { return !server_.beats.back().stopped(); });
  client_->ClearStopping();
  server_.Until([&] { return !server_.beats.back().stopping(); });
}

TEST_F(MembershipClientTest, ACoordinatorOfAnEarlierVersionHearsThatThePoolDrains) {
  server_.Assign("job");
  Start();
  AwaitTold("job", 1);
  client_->SetStopping(Now());
  server_.Until([&] { return !server_.beats.empty() && server_.beats.back().draining(); });
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_FALSE(server_.beats.back().stopping());
}

TEST_F(MembershipClientTest, AFailureIsSentOnce) {
  server_.Assign("job");
  Start();
  AwaitTold("job", 1);
  v1::JobError failure;
  failure.set_code("NOT_FOUND");
  failure.set_fault_class(v1::SITE_FAULT);
  client_->ReportFailure(Now(), failure);
  const auto failures = [&] {
    return std::count_if(server_.beats.begin(), server_.beats.end(),
                         [](const auto& beat) { return beat.has_failure(); });
  };
  server_.Until([&] { return failures() == 1; });
  AwaitTold("job", 20);
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(failures(), 1);
}

TEST_F(MembershipClientTest, AReportThatIsRefusedDoesNotCostTheLease) {
  server_.refuse_evaluations = true;
  server_.Assign("job");
  Start();
  AwaitTold("job", 1);
  client_->AddEvaluation(Now(), {});
  const auto refused = [&] {
    return !server_.beats.empty() && server_.beats.back().evaluations_size() > 0;
  };
  server_.Until(refused);
  server_.Until([&] { return !refused(); });
  EXPECT_FALSE(ended_.HasBeenNotified());
}

TEST_F(MembershipClientTest, ARefusalForGoodEndsIt) {
  for (const absl::Status& error :
       {absl::InvalidArgumentError("pool: is not a name"),
        WithErrorInfo(absl::UnauthenticatedError("who?"), {"WHO", {{"hint", "say who you are"}}}),
        absl::UnimplementedError("no such service")}) {
    PoolServer server;
    server.join_error = error;
    absl::Notification ended;
    absl::Status refused;
    v1::JoinRequest join;
    MembershipClient client(
        {.log = Logger({.stream = &log_}), .coordinator = server.address, .join = join},
        [](const auto&) {},
        [&](const absl::Status& status) {
          refused = status;
          ended.Notify();
        });
    ASSERT_TRUE(ended.WaitForNotificationWithTimeout(absl::Seconds(60)));
    EXPECT_EQ(refused.code(), error.code());
    EXPECT_NE(refused.message().find(error.message()), std::string::npos) << refused;
    if (absl::IsUnauthenticated(error)) {
      EXPECT_THAT(std::string(refused.message()), HasSubstr("who?; say who you are"));
    }
  }
}

// Without this message both would look like a coordinator that is away.
TEST_F(MembershipClientTest, SaysThatOnlyOneSideSpeaksTls) {
  const TestAuthority authority("ours");
  const TempDir folder;
  const auto tls =
      Tls::Load(WriteTlsFiles(folder.path(), authority.certificate(),
                              authority.Issue("site-a", "DNS:localhost,IP:127.0.0.1")));
  ASSERT_TRUE(tls.ok()) << tls.status();
  for (const bool server_has_tls : {false, true}) {
    PoolServer server;
    server.Close();
    server.Open("127.0.0.1:0", server_has_tls ? *tls : nullptr);
    absl::Notification ended;
    absl::Status refused;
    MembershipClient client(
        {.log = Logger({.stream = &log_}),
         .coordinator = server.address,
         .tls = server_has_tls ? nullptr : *tls,
         .join = {}},
        [](const auto&) {},
        [&](const absl::Status& status) {
          refused = status;
          ended.Notify();
        });
    ASSERT_TRUE(ended.WaitForNotificationWithTimeout(absl::Seconds(60)));
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_NE(refused.message().find(server_has_tls ? "requires TLS" : "uses plaintext"),
              std::string::npos)
        << refused;
  }
}

TEST_F(MembershipClientTest, ATakenNameIsTriedAgain) {
  server_.join_error =
      WithRetryDelay(absl::AlreadyExistsError("a live pool has this name"), absl::Milliseconds(5));
  Start();
  server_.Until([&] { return server_.joins.size() > 5; });
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.join_error = absl::OkStatus();
  }
  AwaitTold("", 1);
  client_.reset();
  EXPECT_FALSE(ended_.HasBeenNotified());
  // Lines come at the beginning, after three leases, and then at most once in each `complaints`.
  const std::string log = log_.str();
  EXPECT_NE(log.find("a live pool has this name"), std::string::npos) << log;
  EXPECT_NE(log.find("start this one with another --pool"), std::string::npos) << log;
}

TEST_F(MembershipClientTest, ComesBackToACoordinatorThatWasAway) {
  Start();
  AwaitTold("", 1);
  server_.Close();
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.known = false;
    server_.joins.clear();
  }
  server_.Open(server_.address);
  server_.Until([&] { return !server_.joins.empty(); });
  EXPECT_FALSE(ended_.HasBeenNotified());
}

// It accepts connections, and says nothing.
TEST_F(MembershipClientTest, AStopDoesNotWaitForACoordinatorThatHasNotHeardOfThePool) {
  const TcpListener silent = ListenTcp(/*backlog=*/8);
  server_.address = absl::StrCat(kLoopback, ":", silent.port);
  Start();
  absl::SleepFor(absl::Milliseconds(300));
  client_.reset();
  // A Join that lasts to its deadline has failed.
  EXPECT_EQ(log_.str(), "");
  close(silent.socket);
}

// A coordinator that does not name the capability takes every evaluation for one of the outer
// parameters.
class PoolEvaluationsTest : public MembershipClientTest,
                            public testing::WithParamInterface<bool> {};

TEST_P(PoolEvaluationsTest, AreSentOnlyToCoordinatorsThatTakeThem) {
  const bool takes = GetParam();
  if (takes) server_.capabilities = {"evaluation:pools"};
  server_.Assign("one");
  Start();
  AwaitTold("one", 1);
  v1::Evaluation own, outer;
  own.set_of_pool(true);
  // The server acknowledges up to step 0. A heartbeat between the two calls may bring the first one
  // again.
  own.set_step(1);
  outer.set_step(2);
  client_->AddEvaluation(Now(), own);
  client_->AddEvaluation(Now(), outer);
  server_.Until([&] {
    return !server_.beats.empty() && server_.beats.back().evaluations_size() == (takes ? 2 : 1);
  });
  absl::MutexLock lock(&server_.mutex_);
  const auto& sent = server_.beats.back().evaluations();
  EXPECT_EQ(sent[0].of_pool(), takes);
  EXPECT_EQ(sent.rbegin()->step(), 2);
}

INSTANTIATE_TEST_SUITE_P(All, PoolEvaluationsTest, testing::Bool());

TEST_F(MembershipClientTest, ReportsAboutTheLastJobAreNotTakenForTheNextOne) {
  server_.Assign("one");
  Start();
  AwaitTold("one", 1);
  const MembershipClient::Subject one = Now();
  server_.Assign("two");
  AwaitTold("two", 1);
  v1::PoolProgress progress;
  progress.set_inner_step(99);
  client_->SetProgress(one, progress, true);
  client_->AddEvaluation(one, {});
  client_->ReportFailure(one, {});
  client_->SetMerged(one);
  client_->SetFinished(one);
  progress.set_inner_step(1);
  client_->SetProgress(Now(), progress, true);
  server_.Until([&] { return !server_.beats.empty() && server_.beats.back().has_progress(); });
  absl::MutexLock lock(&server_.mutex_);
  const v1::HeartbeatRequest& beat = server_.beats.back();
  EXPECT_EQ(beat.job_id(), "two");
  EXPECT_EQ(beat.progress().inner_step(), 1);
  EXPECT_EQ(beat.evaluations_size(), 0);
  EXPECT_FALSE(beat.has_failure());
  EXPECT_FALSE(beat.merged());
  EXPECT_FALSE(beat.finished());
}

// --- One of several nodes.

TEST_F(MembershipClientTest, RanksOfSeveralNodesWorkUnderTheirGroup) {
  server_.node.set_node(1);
  server_.node.set_missing("node 0 of 2");
  Start(2);
  AwaitTold("", 2);
  server_.Until([&] { return !server_.beats.empty(); });
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.node.clear_missing();
    server_.node.set_incarnation("9999999999999999");
    server_.assignment.set_job_id("job");
  }
  AwaitTold("job", 1);
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_EQ(told_.back().first, "9999999999999999");
  }
  // When the coordinator starts again, the ranks continue.
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.known = false;
  }
  server_.Until([&] { return server_.joins.size() == 2; });
  {
    absl::MutexLock lock(&server_.mutex_);
    EXPECT_EQ(server_.joins[0].running(), "");
    EXPECT_FALSE(server_.joins[0].has_node());
    EXPECT_EQ(server_.joins[1].running(), "9999999999999999");
    EXPECT_EQ(server_.joins[1].node(), 1);
    EXPECT_TRUE(server_.joins[1].node_given());
    EXPECT_EQ(server_.joins[1].incarnation(), server_.joins[0].incarnation());
  }
  client_.reset();
  EXPECT_THAT(log_.str(), HasSubstr("this is node 1; the pool waits for node 0 of 2"));
  EXPECT_THAT(log_.str(), HasSubstr("all nodes of the pool have joined"));
}

// The lease was lost while the agent was stopped. Its ranks have ended, too, and the agent hears of
// both at once.
TEST_F(MembershipClientTest, APoolThatCameBackDoesNotLeaveForWhatItsLastIncarnationLost) {
  server_.Assign("job");
  Start();
  AwaitTold("job", 1);
  const MembershipClient::Subject lost = Now();
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.known = false;
    server_.join_error = absl::AbortedError("a job continued without pool site-a");
  }
  server_.Until([&] { return server_.joins.size() >= 2; });
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.join_error = absl::OkStatus();
  }
  const size_t beats = [&] {
    server_.Until([&] { return server_.known; });
    absl::MutexLock lock(&server_.mutex_);
    return server_.beats.size();
  }();
  client_->Rejoin(lost, "rank 0 ended with status 10", absl::ZeroDuration());
  server_.Until([&] { return server_.beats.size() >= beats + 3; });
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.leaves.size(), 0);
  EXPECT_NE(server_.joins.back().incarnation(), lost.incarnation);
  EXPECT_EQ(server_.beats.back().incarnation(), server_.joins.back().incarnation());
}

TEST_F(MembershipClientTest, ANewIncarnationOfANodeRunsNothing) {
  server_.node.set_incarnation("9999999999999999");
  server_.assignment.set_job_id("job");
  Start(2);
  AwaitTold("job", 1);
  client_->Rejoin(Now(), "a rank was lost", absl::ZeroDuration());
  server_.Until([&] { return server_.joins.size() == 2; });
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.joins[1].running(), "");
  EXPECT_NE(server_.joins[1].incarnation(), server_.joins[0].incarnation());
}

// The coordinator started again, and another agent came first and got this one's number.
TEST_F(MembershipClientTest, ANodeWhoseNumberIsTakenTakesAnother) {
  server_.node.set_node(1);
  server_.node.set_incarnation("9999999999999999");
  Start(2);
  AwaitTold("", 1);
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.known = false;
    server_.join_error = absl::AlreadyExistsError("another agent is node 1 of pool site-a");
  }
  server_.Until([&] { return server_.joins.size() >= 3; });
  {
    absl::MutexLock lock(&server_.mutex_);
    EXPECT_EQ(server_.joins[1].running(), "9999999999999999");
    EXPECT_EQ(server_.joins[1].node(), 1);
    EXPECT_EQ(server_.joins[2].running(), "");
    EXPECT_FALSE(server_.joins[2].has_node());
  }
  // Its group has ended.
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(told_.back().first, "");
}

TEST_F(MembershipClientTest, AGroupThatDrainedIsNotTheNext) {
  server_.node.set_incarnation("9999999999999999");
  Start(2);
  AwaitTold("", 1);
  client_->SetDraining(Now());
  server_.Until([&] { return !server_.beats.empty() && server_.beats.back().draining(); });
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.node.set_incarnation("8888888888888888");
  }
  server_.Until([&] { return !server_.beats.back().draining(); });
}

TEST_F(MembershipClientTest, ANewIncarnationOfANodeDoesNotReportACompleteGroup) {
  server_.node.set_missing("node 0 of 2");
  Start(2);
  AwaitTold("", 1);
  client_->Rejoin(Now(), "a rank was lost", absl::ZeroDuration());
  server_.Until([&] { return server_.joins.size() == 2; });
  client_.reset();
  EXPECT_EQ(log_.str().find("all nodes of the pool have joined"), std::string::npos);
}

}  // namespace
}  // namespace longhaul
