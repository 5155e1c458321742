// What the ranks of a pool decide together when they know different things. Each rank is a whole
// session on a thread of its own; the ranks' collectives are real, and the coordinator does what
// the test says. No test depends on how long anything takes: what must not wait for ever ends, or
// the test does not.
#include "worker/session/rank_session.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/synthetic_rank.h"
#include "tests/testing/thread_communicator.h"
#include "tests/unit/worker/session/scripted_coordinator.h"

namespace longhaul::session {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kRanksOfPool = 2;

// What a rank did.
struct RankSeen {
  std::vector<int64_t> steps, computed, merged;
  Progress progress;
  Outcome outcome;
};

// A rank that runs a function of the test in each step.
class HookedRank : public SyntheticRank {
 public:
  using Hook = std::function<void(int rank, int64_t step)>;
  HookedRank(SyntheticReplica* replica, Communicator* communicator, Hook hook, RankSeen* seen)
      : SyntheticRank(replica, communicator), hook_(std::move(hook)), seen_(seen) {}

  absl::StatusOr<StepStats> Step(int64_t step) override {
    seen_->steps.push_back(step);
    if (hook_) hook_(rank(), step);
    return SyntheticRank::Step(step);
  }

 private:
  const Hook hook_;
  RankSeen* const seen_;
};

class RankSessionTest : public ::testing::Test {
 protected:
  ~RankSessionTest() override {
    for (const auto& session : sessions_) session->Stop("the test is over");
    Join();
    sessions_ = {};
  }

  // Begins the pool's ranks.
  void Start(const ScriptedCoordinator::Options& options, HookedRank::Hook in_step = nullptr) {
    sessions_ = {};
    coordinator_ = std::make_unique<ScriptedCoordinator>(options);
    communicators_ = MakeThreadCommunicators(kRanksOfPool);
    for (int rank = 0; rank < kRanksOfPool; ++rank) {
      replicas_[rank] =
          SyntheticReplica::Create({.elements = ScriptedCoordinator::kElements, .inner_delta = 1})
              .value();
      ranks_[rank] = std::make_unique<HookedRank>(replicas_[rank].get(), communicators_[rank].get(),
                                                  in_step, &seen_[rank]);
      sessions_[rank] = std::make_unique<RankSession>(OptionsOf(rank), ranks_[rank].get());
    }
    for (int rank = 0; rank < kRanksOfPool; ++rank)
      threads_[rank] = std::thread([this, rank] { Train(rank); });
  }
  // Returns when all ranks have ended.
  void Join() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  // Returns when this rank waits for a commit.
  void AwaitWait(int rank, const std::string& what) {
    absl::MutexLock lock(&mutex_);
    const auto waits = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return waits_[rank] == what; };
    mutex_.Await(absl::Condition(&waits));
  }
  // The rank's process is killed.
  void Lose(int rank) {
    communicators_[rank]->Abort("killed");
    sessions_[rank]->Stop("killed");
  }
  // Brings the ranks to where rank 0 has version 1 and rank 1 waits for it.
  void StartAndHold(bool quorum) {
    Start({.steps = 12, .quorum = quorum, .held = {{1, 1}}});
    coordinator_->AwaitServed(0, 1);
    AwaitWait(1, "fragment 0 version 1");
  }

  std::unique_ptr<ScriptedCoordinator> coordinator_;
  std::array<std::unique_ptr<RankSession>, kRanksOfPool> sessions_;
  std::array<RankSeen, kRanksOfPool> seen_;

 private:
  RankSession::Options OptionsOf(int rank) {
    RankSeen& seen = seen_[rank];
    SessionObserver observer;
    observer.on_progress = [&seen](const Progress& progress) { seen.progress = progress; };
    observer.on_computed = [&seen](int64_t step, absl::Duration took) {
      EXPECT_GE(took, absl::ZeroDuration());
      if (step > 0) seen.computed.push_back(step);
    };
    observer.on_merge = [&seen](const MergeRecord& merge) { seen.merged.push_back(merge.version); };
    observer.on_wait = [this, rank](const std::string& what) {
      absl::MutexLock lock(&mutex_);
      waits_[rank] = what;
    };
    return {.coordinator = coordinator_->address(),
            .job = "job",
            .pool = ScriptedCoordinator::kPool,
            .incarnation = "0123456789abcdef",
            .log = Logger({.level = LogLevel::kError}),
            .observer = observer};
  }
  // The end of a rank's process ends its communicator.
  void Train(int rank) {
    seen_[rank].outcome = sessions_[rank]->Run();
    communicators_[rank].reset();
  }

  absl::Mutex mutex_;
  std::array<std::string, kRanksOfPool> waits_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::array<std::unique_ptr<SyntheticReplica>, kRanksOfPool> replicas_;
  std::array<std::unique_ptr<HookedRank>, kRanksOfPool> ranks_;
  std::array<std::thread, kRanksOfPool> threads_;
};

TEST_F(RankSessionTest, ACallThatOneRankHasHeardMovesAllRanks) {
  for (int informed : {0, 1}) {
    Start({.steps = 4, .called = {informed}});
    Join();
    for (const RankSeen& seen : seen_) {
      EXPECT_EQ(seen.outcome.kind, Outcome::Kind::kFinished) << seen.outcome.status;
      EXPECT_EQ(seen.outcome.done, Extent::kAll);
      EXPECT_THAT(seen.steps, ElementsAre(1, 4)) << "round 1 is pushed at step 3";
      EXPECT_EQ(seen.computed, seen.steps);
      EXPECT_THAT(seen.merged, ElementsAre(1, 2));
    }
    EXPECT_THAT(coordinator_->WeightsOf(1),
                ElementsAre(testing::Pair(0, 1.0), testing::Pair(1, 1.0)));
    seen_ = {};
  }
}

TEST_F(RankSessionTest, RanksThatPulledDifferentVersionsBeginWithTheNewest) {
  Start({.steps = 12, .quorum = false, .held = {{1, 0}}});
  coordinator_->AwaitServed(0, 0);
  coordinator_->CommitWithoutThePool(1, 1);
  Join();
  for (const RankSeen& seen : seen_) {
    EXPECT_EQ(seen.outcome.kind, Outcome::Kind::kFinished) << seen.outcome.status;
    EXPECT_EQ(seen.outcome.done, Extent::kAll);
    EXPECT_THAT(seen.merged, ElementsAre(2, 3, 4));
  }
  EXPECT_THAT(coordinator_->WeightsOf(1), IsEmpty());
}

TEST_F(RankSessionTest, AllRanksBeginAgainIfOneLacksACommit) {
  StartAndHold(/*quorum=*/true);
  // Nobody gives version 1 any more. Rank 0, which has it, has not even heard of version 2.
  coordinator_->CommitWithoutThePool(2, 1);
  Join();
  for (const RankSeen& seen : seen_) {
    EXPECT_EQ(seen.outcome.kind, Outcome::Kind::kFinished) << seen.outcome.status;
    EXPECT_EQ(seen.outcome.done, Extent::kAll);
    EXPECT_THAT(seen.steps, ElementsAre(1, 2, 3, 4, 8, 9, 10, 11, 12))
        << "round 2 is pushed at step 7";
    EXPECT_THAT(seen.merged, ElementsAre(3, 4));
  }
  EXPECT_THAT(coordinator_->WeightsOf(1),
              ElementsAre(testing::Pair(0, 3.0), testing::Pair(1, 3.0)));
  EXPECT_THAT(coordinator_->WeightsOf(3),
              ElementsAre(testing::Pair(0, 4.0), testing::Pair(1, 4.0)));
}

TEST_F(RankSessionTest, AStopThatOneRankHasHeardEndsAllRanksAfterTheSameStep) {
  for (int asked : {0, 1}) {
    Start({.steps = 12}, [&](int rank, int64_t step) {
      if (rank == asked && step == 2) sessions_[rank]->Drain();
    });
    Join();
    for (const RankSeen& seen : seen_) {
      EXPECT_EQ(seen.outcome.kind, Outcome::Kind::kFinished) << seen.outcome.status;
      EXPECT_EQ(seen.outcome.done, Extent::kPart);
      EXPECT_THAT(seen.steps, ElementsAre(1, 2));
      EXPECT_TRUE(seen.progress.draining);
      EXPECT_EQ(seen.progress.inner_step, 2);
    }
    seen_ = {};
  }
}

// The coordinator waits for what the pool contributes up to its last step.
TEST_F(RankSessionTest, ACalledPoolThatStopsSaysHowFarItContributes) {
  Start({.steps = 12, .called = {0}}, [&](int rank, int64_t step) {
    if (rank == 1 && step == 1) sessions_[rank]->Drain();
  });
  Join();
  for (const RankSeen& seen : seen_) {
    EXPECT_EQ(seen.outcome.kind, Outcome::Kind::kFinished) << seen.outcome.status;
    EXPECT_THAT(seen.steps, ElementsAre(1));
    EXPECT_TRUE(seen.progress.draining);
    EXPECT_EQ(seen.progress.inner_step, 3);
  }
  EXPECT_THAT(coordinator_->WeightsOf(1),
              ElementsAre(testing::Pair(0, 1.0), testing::Pair(1, 1.0)));
}

class CutMergeTest : public RankSessionTest, public ::testing::WithParamInterface<bool> {};

// Rank 1 waits for a commit that rank 0 has. Rank 0 waits for it: in the merge, or with a quorum
// where the ranks agree whether they can make it.
TEST_P(CutMergeTest, AMergeEndsWithARankThatStops) {
  StartAndHold(/*quorum=*/GetParam());
  sessions_[1]->Drain();
  Join();
  for (const RankSeen& seen : seen_) {
    EXPECT_EQ(seen.outcome.kind, Outcome::Kind::kFinished) << seen.outcome.status;
    EXPECT_EQ(seen.outcome.done, Extent::kPart);
    EXPECT_THAT(seen.steps, ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(seen.merged, IsEmpty());
    EXPECT_TRUE(seen.progress.draining);
    EXPECT_EQ(seen.progress.inner_step, 4);
  }
}

TEST_P(CutMergeTest, AMergeFailsWithARankThatIsLost) {
  StartAndHold(/*quorum=*/GetParam());
  Lose(1);
  Join();
  EXPECT_EQ(seen_[0].outcome.kind, Outcome::Kind::kFailed);
  EXPECT_EQ(seen_[0].outcome.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(seen_[0].merged, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, CutMergeTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Quorum" : "Lockstep"; });

}  // namespace
}  // namespace longhaul::session
