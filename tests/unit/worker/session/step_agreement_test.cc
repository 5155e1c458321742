#include "worker/session/step_agreement.h"

#include <array>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/synthetic_rank.h"
#include "tests/unit/worker/engine/run_ranks.h"

namespace longhaul::session {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Runs `body` for each rank, on its own thread.
void RunSyntheticPool(int ranks, const std::function<void(SyntheticRank&, Communicator&)>& body) {
  RunRanks(ranks, [&](int, Communicator& communicator) {
    const auto replica = SyntheticReplica::Create({}).value();
    SyntheticRank rank(replica.get(), &communicator);
    body(rank, communicator);
  });
}

TEST(StepAgreementTest, AllRanksGetWhatAnyOfThemKnows) {
  const std::array<StepAgreement::Values, 3> known = {
      StepAgreement::Values{.called = 3}, {.drain = true}, {.called = 7}};
  for (const bool each_step : {false, true}) {
    std::array<StepAgreement::Values, 3> agreed;
    RunSyntheticPool(3, [&](SyntheticRank& rank, Communicator&) {
      StepAgreement agreement;
      agreed[rank.rank()] =
          agreement.AfterStep(rank, 1, 0.1, known[rank.rank()], each_step).value();
    });
    for (const StepAgreement::Values& values : agreed) {
      EXPECT_TRUE(values.drain);
      EXPECT_EQ(values.called, 7);
    }
  }
}

// The steps after which rank 0 asked the others, when it runs 12 steps.
std::vector<int64_t> StepsAsked(std::array<double, 2> step_seconds, bool each_step) {
  std::array<std::vector<int64_t>, 2> asked;
  RunSyntheticPool(2, [&](SyntheticRank& rank, Communicator& communicator) {
    StepAgreement agreement;
    for (int64_t step = 1; step <= 12; ++step) {
      const int64_t before = communicator.traffic().operations;
      ASSERT_TRUE(agreement.AfterStep(rank, step, step_seconds[rank.rank()], {}, each_step).ok());
      if (communicator.traffic().operations > before) asked[rank.rank()].push_back(step);
    }
  });
  EXPECT_EQ(asked[0], asked[1]) << "or one of them would wait for ever";
  return asked[0];
}

TEST(StepAgreementTest, RanksAskAboutOnceASecondAsTheSlowestOneSeesIt) {
  EXPECT_THAT(StepsAsked({0.01, 0.25}, false), ElementsAre(1, 5, 9));
  EXPECT_THAT(StepsAsked({0.25, 0.01}, false), ElementsAre(1, 5, 9));
  EXPECT_THAT(StepsAsked({0.4, 0.35}, false), ElementsAre(1, 3, 5, 7, 9, 11));
  EXPECT_THAT(StepsAsked({0, 0}, false), ElementsAre(1))
      << "the next time is at most 1000 steps later";
  EXPECT_EQ(StepsAsked({1e12, 0}, false).size(), 12u);
}

TEST(StepAgreementTest, WithAQuorumTheyAskAfterEachStep) {
  EXPECT_EQ(StepsAsked({0.01, 0.02}, true).size(), 12u);
}

TEST(StepAgreementTest, BetweenTwoTimesNothingIsAgreedOn) {
  RunSyntheticPool(2, [](SyntheticRank& rank, Communicator&) {
    StepAgreement agreement;
    std::vector<bool> drains;
    for (int64_t step = 1; step <= 5; ++step) {
      const StepAgreement::Values own{.drain = rank.rank() == 1 && step >= 2};
      drains.push_back(agreement.AfterStep(rank, step, 0.25, own, false).value().drain);
    }
    EXPECT_THAT(drains, ElementsAre(false, false, false, false, true)) << "rank " << rank.rank();
  });
}

TEST(StepAgreementTest, ARankWithoutOthersAsksNobody) {
  RunSyntheticPool(1, [](SyntheticRank& rank, Communicator& communicator) {
    StepAgreement agreement;
    for (int64_t step : {1, 2, 3}) {
      const StepAgreement::Values own{.drain = step == 2, .called = step};
      const StepAgreement::Values agreed =
          agreement.AfterStep(rank, step, 1e-6, own, false).value();
      EXPECT_EQ(agreed.drain, own.drain);
      EXPECT_EQ(agreed.called, own.called);
    }
    EXPECT_EQ(communicator.traffic().operations, 0);
  });
}

TEST(StepAgreementTest, NobodyWaitsForARankThatHasLeft) {
  auto communicators = MakeThreadCommunicators(3);
  communicators[1].reset();
  std::array<absl::StatusCode, 2> codes;
  const auto ask = [&](int index, Communicator& communicator) {
    const auto replica = SyntheticReplica::Create({}).value();
    SyntheticRank rank(replica.get(), &communicator);
    StepAgreement agreement;
    codes[index] = agreement.AfterStep(rank, 1, 0.1, {}, true).status().code();
  };
  std::thread first([&] { ask(0, *communicators[0]); });
  ask(1, *communicators[2]);
  first.join();
  EXPECT_THAT(codes, Each(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace longhaul::session
