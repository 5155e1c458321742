#include "worker/agent/pool_supervisor.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/overloaded.h"

namespace longhaul {
namespace {

using Supervisor = PoolSupervisor;

std::string Text(const Supervisor::Actions& actions) {
  return absl::StrJoin(actions, ", ", [](std::string* out, const Supervisor::Action& action) {
    absl::StrAppend(
        out, std::visit(
                 Overloaded{[](const Supervisor::StartRanks&) -> std::string { return "start"; },
                            [](const Supervisor::KillRanks& a) {
                              return absl::StrCat("kill", a.lost.empty() ? "" : " after: ", a.lost);
                            },
                            [](const Supervisor::DrainRanks&) -> std::string { return "drain"; },
                            [](const Supervisor::Rejoin& a) {
                              return absl::StrCat("rejoin in ", absl::FormatDuration(a.delay), ": ",
                                                  a.reason);
                            },
                            [](const Supervisor::Done& a) -> std::string {
                              return a.had_work ? "done with work" : a.idle ? "idle" : "done";
                            }},
                 action));
  });
}

class PoolSupervisorTest : public testing::Test {
 protected:
  explicit PoolSupervisorTest(int ranks = 2, int nodes = 1,
                              absl::Duration exit_when_idle = absl::InfiniteDuration())
      : ranks_(ranks),
        supervisor_({.ranks = ranks,
                     .progress = {.at_least = absl::Seconds(60), .factor = 20},
                     .drain = absl::Seconds(30),
                     .nodes = nodes,
                     .exit_when_idle = exit_when_idle},
                    now_) {}

  std::string Assign(const std::string& job, const std::string& incarnation = "one") {
    return Text(supervisor_.Assigned({incarnation, job, 0}, now_));
  }
  // The job is being paused.
  std::string Stop(const std::string& job) {
    return Text(supervisor_.Assigned({"one", job, 0, 0, true}, now_));
  }
  std::string Exit(int rank, int code) { return Text(supervisor_.Exited(rank, code, now_)); }
  // Ticks each second. The given ranks report this status each second, too.
  std::string Pass(absl::Duration time,
                   const std::vector<std::pair<int, RankStatus>>& reports = {}) {
    for (const absl::Time end = now_ + time; now_ < end;) {
      now_ += absl::Seconds(1);
      for (const auto& [rank, status] : reports) supervisor_.Reported(rank, status, now_);
      if (const auto actions = supervisor_.Tick(now_); !actions.empty()) return Text(actions);
    }
    return "";
  }
  static RankStatus At(int64_t step, double expected = 0.1) {
    return {.step = step, .expected_seconds = expected};
  }
  static RankStatus InCollective(int64_t step) {
    return {.step = step, .expected_seconds = 0.1, .in_collective = true};
  }
  static RankStatus Waiting(int64_t step) {
    return {.step = step, .expected_seconds = 0.1, .waits_for = "fragment 0 version 3"};
  }

  const int ranks_;
  absl::Time now_ = absl::UnixEpoch();
  Supervisor supervisor_;
};

TEST_F(PoolSupervisorTest, StartsWhatIsAssignedOnceAndEndsWhatIsNot) {
  EXPECT_EQ(Assign(""), "");
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Assign("job"), "");
  EXPECT_EQ(Assign("other"), "kill, start");
  EXPECT_EQ(Assign("other", "two"), "kill, start");
  EXPECT_EQ(Assign("", "three"), "kill");
  EXPECT_EQ(Assign("", "three"), "");
}

// The coordinator told them, too. They remove what they keep of the job.
TEST_F(PoolSupervisorTest, RanksWhoseJobEndedMayEndByThemselves) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Assign(""), "");
  EXPECT_EQ(supervisor_.state(), Supervisor::State::kLeaving);
  EXPECT_EQ(Assign(""), "");
  Exit(0, kRankFinished);
  EXPECT_EQ(supervisor_.state(), Supervisor::State::kLeaving);
  Exit(1, kRankRestart);
  EXPECT_EQ(supervisor_.state(), Supervisor::State::kIdle);
  EXPECT_EQ(Pass(absl::Minutes(1)), "");
  EXPECT_EQ(Assign("other"), "start");
}

TEST_F(PoolSupervisorTest, RanksWhoseJobEndedDoNotStayForLong) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Assign(""), "");
  Exit(0, kRankFinished);
  EXPECT_EQ(Pass(absl::Seconds(9)), "");
  EXPECT_EQ(Pass(absl::Seconds(2)), "kill");
  EXPECT_EQ(supervisor_.state(), Supervisor::State::kIdle);
  EXPECT_EQ(Assign("other"), "start");
}

TEST_F(PoolSupervisorTest, NextWorkDoesNotWaitForRanksThatLeave) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Assign(""), "");
  EXPECT_EQ(Assign("other"), "kill, start");
  EXPECT_EQ(Assign(""), "");
  EXPECT_EQ(Text(supervisor_.Drain(now_)), "done");
}

TEST_F(PoolSupervisorTest, RanksStopWhenTheirJobIsPausedAndTheAgentStays) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Stop("job"), "drain");
  EXPECT_EQ(Stop("job"), "");
  EXPECT_EQ(supervisor_.state(), Supervisor::State::kStopping);
  Exit(0, kRankStopped);
  EXPECT_FALSE(supervisor_.stopped());
  Exit(1, kRankStopped);
  EXPECT_TRUE(supervisor_.stopped());
  EXPECT_EQ(Pass(absl::Minutes(1)), "");
  EXPECT_EQ(Stop("job"), "") << "they are not started again";
  EXPECT_EQ(Assign(""), "");
  EXPECT_FALSE(supervisor_.stopped());
  EXPECT_EQ(Assign("other"), "start");
  EXPECT_EQ(Assign(""), "");
  EXPECT_EQ(Assign("job"), "kill, rejoin in 0: its ranks restart");
}

TEST_F(PoolSupervisorTest, RanksThatDoNotStopInTimeAreEnded) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Stop("job"), "drain");
  Exit(0, kRankRestart);
  EXPECT_EQ(Pass(absl::Seconds(29)), "") << "nobody is blamed";
  EXPECT_EQ(Pass(absl::Seconds(2)), "kill");
  EXPECT_TRUE(supervisor_.stopped());
}

TEST_F(PoolSupervisorTest, APauseThatIsTakenBackBeginsTheRanksAgain) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Stop("job"), "drain");
  EXPECT_EQ(Assign("job"), "") << "they stop already";
  Exit(0, kRankStopped);
  Exit(1, kRankStopped);
  EXPECT_FALSE(supervisor_.stopped());
  EXPECT_EQ(Assign("job"), "rejoin in 0: its ranks restart");
}

TEST_F(PoolSupervisorTest, RanksThatHadDoneNothingMayBeginAgain) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Stop("job"), "drain");
  Exit(0, kRankFinished);
  Exit(1, kRankFinished);
  EXPECT_TRUE(supervisor_.stopped());
  EXPECT_EQ(Assign("job"), "start");
}

TEST_F(PoolSupervisorTest, WhatIsToStopIsNotStarted) {
  EXPECT_EQ(Stop("job"), "");
  EXPECT_TRUE(supervisor_.stopped());
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Stop("other"), "kill");
  EXPECT_TRUE(supervisor_.stopped());
  EXPECT_EQ(Assign("third"), "start");
}

TEST_F(PoolSupervisorTest, AJobThatIsTakenAwayWhileRanksStopEndsThem) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Stop("job"), "drain");
  EXPECT_EQ(Assign(""), "");
  EXPECT_EQ(supervisor_.state(), Supervisor::State::kLeaving);
  EXPECT_EQ(Assign("other"), "kill, start");
}

TEST_F(PoolSupervisorTest, AnAgentMayBeAskedToStopWhileItsRanksStop) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Stop("job"), "drain");
  EXPECT_EQ(Text(supervisor_.Drain(now_)), "") << "the ranks were asked already";
  Exit(0, kRankStopped);
  EXPECT_EQ(Exit(1, kRankStopped), "done with work");
}

TEST_F(PoolSupervisorTest, RanksThatCompletedTheirWorkAreNotStartedAgain) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Exit(0, kRankCompleted), "");
  EXPECT_FALSE(supervisor_.completed());
  EXPECT_EQ(Exit(1, kRankCompleted), "");
  EXPECT_TRUE(supervisor_.completed());
  now_ += absl::Hours(1);
  EXPECT_EQ(Assign("job"), "") << "the job is about to end";
  EXPECT_EQ(Assign("other"), "start");
  EXPECT_FALSE(supervisor_.completed());
}

// The coordinator was killed between two jobs. The ranks took an answer of the old state for the
// end, but the coordinator still counts on this pool.
TEST_F(PoolSupervisorTest, RanksThatEndedAreStartedAgainWhileTheirJobIsAssigned) {
  const std::string again = "rejoin in 0: its ranks restart";
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Exit(0, kRankStopped), "");
  EXPECT_EQ(Exit(1, kRankStopped), "");
  EXPECT_EQ(Assign("job"), "") << "it may just have ended";
  now_ += absl::Seconds(2);
  EXPECT_EQ(Assign("job"), again);
  EXPECT_EQ(Assign("job"), "");
  EXPECT_EQ(Assign("", "two"), "");
  EXPECT_EQ(Assign("job", "two"), "start");
  Exit(0, kRankStopped), Exit(1, kRankStopped);
  EXPECT_EQ(Assign(""), "");
  now_ += absl::Hours(1);
  EXPECT_EQ(Assign(""), "");
}

TEST_F(PoolSupervisorTest, RanksAreStartedAgainMoreSlowlyEachTime) {
  EXPECT_EQ(Assign("job"), "start");
  for (int seconds : {2, 4, 8}) {
    Exit(0, kRankStopped), Exit(1, kRankStopped);
    now_ += absl::Seconds(seconds - 1);
    EXPECT_EQ(Text(supervisor_.Assigned(supervisor_.work(), now_)), "");
    now_ += absl::Seconds(1);
    EXPECT_EQ(Text(supervisor_.Assigned(supervisor_.work(), now_)),
              "rejoin in 0: its ranks restart");
    EXPECT_EQ(Assign("", absl::StrCat("after ", seconds)), "") << "it left";
    EXPECT_EQ(Assign("job", absl::StrCat("after ", seconds)), "start");
  }
}

// Pushes of an earlier run may have counted.
TEST_F(PoolSupervisorTest, AnIncarnationThatDidStepsOfAJobDoesNotBeginItAgain) {
  EXPECT_EQ(Assign("a"), "start");
  Exit(0, kRankStopped), Exit(1, kRankFinished);
  EXPECT_EQ(Assign("b"), "start");
  EXPECT_EQ(Assign("a"), "kill, rejoin in 0: its ranks restart");
  EXPECT_EQ(Assign("a", "two"), "start");
}

// The coordinator may answer a reported failure before the ranks have ended.
TEST_F(PoolSupervisorTest, RanksThatWereKilledMayHaveDoneSteps) {
  EXPECT_EQ(Assign("job"), "start");
  supervisor_.Failed();
  EXPECT_EQ(Assign(""), "") << "set aside";
  EXPECT_EQ(Assign("job"), "kill, rejoin in 0: its ranks restart");
}

// The job waited for its other pools, and this pool was free meanwhile. No place is given up for
// that.
TEST_F(PoolSupervisorTest, RanksThatDidNothingBeginAgainAtOnce) {
  EXPECT_EQ(Assign("job"), "start");
  Exit(0, kRankFinished), Exit(1, kRankFinished);
  EXPECT_EQ(Assign(""), "");
  EXPECT_EQ(Assign("job"), "start");
}

// One of two ranks heard that the pool was free. The other was away then; it hears only of the next
// assignment, and would wait for ever.
TEST_F(PoolSupervisorTest, ARankThatDoesNotEndWithTheOthersEndsTheGroup) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Exit(0, kRankFinished), "");
  EXPECT_EQ(Pass(absl::Seconds(59), {{1, Waiting(0)}}), "");
  EXPECT_EQ(Pass(absl::Seconds(2), {{1, Waiting(0)}}),
            "kill, rejoin in 200ms: rank 1 did not end with the others");
}

TEST_F(PoolSupervisorTest, AnAgentThatWasStoppedHearsTheEndsOfItsRanksFirst) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Exit(0, kRankCompleted), "");
  now_ += absl::Hours(1);
  EXPECT_EQ(Text(supervisor_.Tick(now_)), "");
  EXPECT_EQ(Exit(1, kRankCompleted), "");
  EXPECT_TRUE(supervisor_.completed());
}

TEST_F(PoolSupervisorTest, ALostRankEndsTheGroup) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Exit(1, 128 + 9), "");
  EXPECT_EQ(Exit(0, kRankRestart), "kill, rejoin in 200ms: rank 1 was ended by signal 9");
  EXPECT_EQ(Assign("job"), "") << "this incarnation has lost its place";
  EXPECT_EQ(Assign("", "two"), "");
  EXPECT_EQ(Assign("job", "two"), "start");
  EXPECT_EQ(Exit(1, kRankRestart), "");
  EXPECT_EQ(Pass(absl::Seconds(5)), "kill, rejoin in 400ms: rank 1 ended with status 10")
      << "the other one need not end by itself";
}

TEST_F(PoolSupervisorTest, AStepEndsARowOfLosses) {
  for (const char* delay : {"200ms", "400ms", "800ms"}) {
    Assign("job", delay);
    Exit(0, 1);
    EXPECT_EQ(Exit(1, 1), absl::StrCat("kill, rejoin in ", delay, ": rank 0 ended with status 1"));
  }
  Assign("job", "again");
  supervisor_.Reported(0, At(0), now_);
  supervisor_.Reported(0, At(1), now_);
  Exit(0, 1);
  EXPECT_EQ(Exit(1, 1), "kill, rejoin in 200ms: rank 0 ended with status 1");
}

// Each rank of a site without its data reports that. One may only notice that the other is gone.
TEST_F(PoolSupervisorTest, AReportedFailureIsNotALoss) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Exit(1, kRankRestart), "");
  supervisor_.Failed();
  EXPECT_EQ(Exit(0, kRankFailed), "");
  EXPECT_EQ(supervisor_.state(), Supervisor::State::kEnded);
  EXPECT_EQ(Assign("job"), "");
  EXPECT_EQ(Assign(""), "") << "set aside";
  EXPECT_EQ(Assign("job"), "rejoin in 0: its ranks restart");
  EXPECT_EQ(Assign("job", "two"), "start") << "and tried again";
  supervisor_.Failed();
  EXPECT_EQ(Exit(0, kRankFailed), "kill");
}

TEST_F(PoolSupervisorTest, AProgramThatCannotBeStartedIsTriedAgainLater) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Text(supervisor_.StartFailed("no such file")), "kill, rejoin in 200ms: no such file");
}

TEST_F(PoolSupervisorTest, ARankWithoutProgressEndsTheGroup) {
  Assign("job");
  EXPECT_EQ(Pass(absl::Seconds(30), {{0, At(7)}, {1, At(7)}}), "");
  EXPECT_EQ(Pass(absl::Seconds(90), {{0, InCollective(7)}, {1, At(7)}}),
            "kill, rejoin in 200ms: rank 1 made no progress for 1m1s at inner step 7 (limit 1m)");
}

TEST_F(PoolSupervisorTest, SlowStepsMayTakeLonger) {
  Assign("job");
  EXPECT_EQ(Pass(absl::Seconds(199), {{0, At(7, 10)}, {1, At(7, 10)}}), "");
  EXPECT_EQ(
      Pass(absl::Seconds(10), {{0, At(7, 10)}, {1, At(7, 10)}}),
      "kill, rejoin in 200ms: rank 0 made no progress for 3m21s at inner step 7 (limit 3m20s)");
}

TEST_F(PoolSupervisorTest, TheFirstStepsMayTakeLongest) {
  Assign("job");
  EXPECT_EQ(Pass(absl::Minutes(29), {{0, At(0, 0)}, {1, At(0, 0)}}), "");
  EXPECT_NE(Pass(absl::Minutes(2), {{0, At(0, 0)}, {1, At(0, 0)}}), "");
}

TEST_F(PoolSupervisorTest, WaitingForTheCoordinatorIsNotBlamed) {
  Assign("job");
  EXPECT_EQ(Pass(absl::Hours(1), {{0, Waiting(7)}, {1, Waiting(7)}}), "");
  EXPECT_EQ(Pass(absl::Hours(1), {{0, Waiting(7)}, {1, InCollective(7)}}), "")
      << "a rank whose commit is here waits for one whose is not";
  EXPECT_NE(Pass(absl::Minutes(2), {{0, Waiting(7)}, {1, At(7)}}), "") << "but not outside of one";
}

// One rank gets the commit a minute after the other. Then both take part in the merge.
TEST_F(PoolSupervisorTest, ARankThatWaitedForAnotherHasItsTimeAfterwards) {
  Assign("job");
  EXPECT_EQ(Pass(absl::Hours(1), {{0, Waiting(7)}, {1, InCollective(7)}}), "");
  EXPECT_EQ(Pass(absl::Seconds(50), {{0, InCollective(7)}, {1, InCollective(7)}}), "");
  EXPECT_EQ(Pass(absl::Seconds(50), {{0, At(7)}, {1, InCollective(7)}}), "");
  EXPECT_EQ(Pass(absl::Seconds(50), {{0, InCollective(7)}, {1, InCollective(7)}}), "");
  EXPECT_NE(Pass(absl::Seconds(11), {{0, InCollective(7)}, {1, InCollective(7)}}), "");
}

// As after SIGSTOP: a rank must report each second, whatever it reported last.
TEST_F(PoolSupervisorTest, ASilentRankEndsTheGroup) {
  Assign("job");
  EXPECT_EQ(Pass(absl::Seconds(10), {{0, Waiting(7)}, {1, Waiting(7)}}), "");
  EXPECT_EQ(Pass(absl::Seconds(90), {{0, Waiting(7)}}),
            "kill, rejoin in 200ms: rank 1 was silent for 1m1s at inner step 7 (limit 1m)");
}

TEST_F(PoolSupervisorTest, ASilentRankIsBlamedAndNotTheOneThatWaitsForIt) {
  Assign("job");
  Pass(absl::Seconds(3), {{0, InCollective(7)}, {1, InCollective(7)}});
  EXPECT_EQ(Pass(absl::Seconds(90), {{0, InCollective(7)}}),
            "kill, rejoin in 200ms: rank 1 was silent for 1m1s at inner step 7 (limit 1m)");
}

TEST_F(PoolSupervisorTest, AnAgentThatWasStoppedItselfBlamesNobody) {
  Assign("job");
  EXPECT_EQ(Pass(absl::Seconds(10), {{0, At(7)}, {1, At(7)}}), "");
  now_ += absl::Hours(1);
  EXPECT_EQ(Text(supervisor_.Tick(now_)), "");
  EXPECT_EQ(Pass(absl::Seconds(30), {{0, At(8)}, {1, At(8)}}), "");
}

TEST_F(PoolSupervisorTest, DrainsItsRanks) {
  Assign("job");
  EXPECT_EQ(Text(supervisor_.Drain(now_)), "drain");
  EXPECT_EQ(Text(supervisor_.Drain(now_)), "");
  EXPECT_EQ(Assign("other"), "") << "no new work";
  EXPECT_EQ(Exit(0, kRankFinished), "");
  EXPECT_EQ(Exit(1, kRankRestart), "done with work") << "it noticed that the other had gone";
}

TEST_F(PoolSupervisorTest, ADrainEndsInTime) {
  Assign("job");
  supervisor_.Drain(now_);
  EXPECT_EQ(Pass(absl::Seconds(29), {{0, At(7)}}), "");
  EXPECT_EQ(Pass(absl::Seconds(1), {{0, At(7)}}), "kill, done with work");
}

TEST_F(PoolSupervisorTest, AnIdlePoolDrainsAtOnce) {
  Assign("");
  EXPECT_EQ(Text(supervisor_.Drain(now_)), "done");
}

// --- One of several nodes, with ranks 2 and 3 of its pool.

class BatchSupervisorTest : public PoolSupervisorTest {
 protected:
  BatchSupervisorTest() : PoolSupervisorTest(1, 1, absl::Minutes(10)) {}
};

TEST_F(BatchSupervisorTest, EndsWhenItHasHadNoJobForLong) {
  EXPECT_EQ(Assign(""), "");
  EXPECT_EQ(Pass(absl::Minutes(9)), "");
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Pass(absl::Minutes(20), {{0, Waiting(1)}}), "") << "it waits for its job";
  EXPECT_EQ(Exit(0, kRankCompleted), "");
  EXPECT_EQ(Pass(absl::Minutes(20)), "") << "the job has not ended";
  EXPECT_EQ(Assign(""), "");
  EXPECT_EQ(Pass(absl::Minutes(10) - absl::Seconds(2)), "");
  EXPECT_EQ(Pass(absl::Seconds(4)), "idle");
  EXPECT_EQ(Assign("another"), "") << "it leaves";
}

TEST_F(BatchSupervisorTest, EndsWhenItHasNoCoordinator) {
  EXPECT_EQ(Pass(absl::Minutes(11)), "idle");
}

class NodeSupervisorTest : public PoolSupervisorTest {
 protected:
  NodeSupervisorTest() : PoolSupervisorTest(/*ranks=*/2, /*nodes=*/2) {}
  std::string Assign(const std::string& job, const std::string& group = "one") {
    return Text(supervisor_.Assigned({group, job, 0, 2}, now_));
  }
};

TEST_F(NodeSupervisorTest, AGroupBeginsAJobOnce) {
  EXPECT_EQ(Assign("job"), "start");
  Exit(0, kRankFinished), Exit(1, kRankFinished);
  now_ += absl::Seconds(2);
  EXPECT_EQ(Assign("job"), "rejoin in 0: its ranks restart");
  EXPECT_EQ(Assign("", "two"), "");
  EXPECT_EQ(Assign("job", "two"), "start");
  EXPECT_EQ(Assign("other", "two"), "kill, start");
}

// Another node's agent was faster to tell the coordinator, which ended the group.
TEST_F(NodeSupervisorTest, TheRankThatWasLostFirstIsToldAlthoughTheGroupHasEnded) {
  EXPECT_EQ(Assign("job"), "start");
  EXPECT_EQ(Exit(0, 128 + 9), "");
  EXPECT_EQ(Assign("", ""), "kill after: rank 2 was ended by signal 9");
  EXPECT_EQ(Assign("job", "two"), "start");
  EXPECT_EQ(Assign("", ""), "kill");
}

// Two pools of several nodes begin a job together. Each group that ends takes the job from the
// other pool, too. If groups came back ever later, the two would never be there at the same time.
TEST_F(NodeSupervisorTest, AGroupThatDidNothingMakesRoomForTheNextAtOnce) {
  for (int i = 0; i < 5; ++i) {
    const std::string group = absl::StrCat("group ", i);
    EXPECT_EQ(Assign("job", group), "start");
    Exit(0, kRankFinished), Exit(1, kRankFinished);
    EXPECT_EQ(Assign("job", group), "rejoin in 0: its ranks restart");
    EXPECT_EQ(Assign("", ""), "");
  }
  EXPECT_EQ(Assign("job", "last"), "start");
  Exit(0, kRankFinished), Exit(1, kRankStopped);
  EXPECT_EQ(Assign("job", "last"), "") << "it did something, and the job may just have ended";
}

TEST_F(NodeSupervisorTest, NamesRanksByTheirNumberInThePool) {
  Assign("job");
  Exit(1, kRankRestart);
  EXPECT_EQ(Pass(absl::Seconds(2)), "kill, rejoin in 200ms: rank 3 ended with status 10");
}

TEST_F(NodeSupervisorTest, RanksThatAllWaitForAnotherNodesAreExcused) {
  Assign("job");
  EXPECT_EQ(Pass(absl::Seconds(10), {{0, At(7)}, {1, At(7)}}), "");
  EXPECT_EQ(Pass(absl::Minutes(30), {{0, InCollective(7)}, {1, InCollective(7)}}), "");
  EXPECT_EQ(Pass(absl::Minutes(2), {{0, InCollective(7)}, {1, At(7)}}),
            "kill, rejoin in 200ms: rank 3 made no progress for 1m1s at inner step 7 (limit 1m)");
}

TEST_F(NodeSupervisorTest, WaitsForTheNodeThatDrains) {
  Assign("job");
  Exit(0, kRankStopped), Exit(1, kRankStopped);
  now_ += absl::Seconds(29);
  EXPECT_EQ(Assign("job"), "") << "the other still sends what it owes";
  EXPECT_EQ(Assign("", ""), "") << "it left";
  EXPECT_EQ(Assign("job", "two"), "start");
}

}  // namespace
}  // namespace longhaul
