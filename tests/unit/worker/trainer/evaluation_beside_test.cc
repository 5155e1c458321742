#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/testing/language_run.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/engine/run_ranks.h"
#include "worker/trainer/evaluation_thread.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kSteps = 6, kEvaluatedStep = 2;

struct BesideCase {
  const char* preset = "ddp";
  int ranks = 1;
  ComputePrecision precision = ComputePrecision::kFloat32;
  Blocks blocks = Blocks::kAuto;
  bool tied = false;
};

LanguageRun BesideOptions(const BesideCase& of) {
  const std::string path = WrittenOnce("evaluation_beside", [](std::ostream& file) {
    for (int i = 0; i < 300; ++i)
      file << "beside the quick brown fox " << i % 7 << " another runs\n";
  });
  return {.plan = {.batch = 4,
                   .seed = 5,
                   .learning_rate = {.peak = 5e-3, .steps = 100},
                   .optimizer = AdamWOptions{},
                   .partition = *PartitionPreset(of.preset),
                   .precision = of.precision,
                   .blocks = of.blocks,
                   .eval_batches = 3},
          .language = {.shape = {.layers = 2,
                                 .dim = 32,
                                 .heads = 2,
                                 .kv_heads = 2,
                                 .ff_dim = 64,
                                 .context = 16,
                                 .vocab = 256,
                                 .tie_embeddings = of.tied},
                       .sources = {{.source = {.path = path}}}}};
}

struct BesideRun {
  std::vector<double> losses;  // Of the steps.
  double evaluated = 0;        // The parameters after step kEvaluatedStep.
};

// On rank 0. `beside`: while the steps go on; else in their place.
BesideRun TrainAndEvaluate(const BesideCase& of, bool beside) {
  BesideRun run;
  LanguageRun options = BesideOptions(of);
  if (beside) options.plan.evaluation_beside = {.evaluations = 2};
  RunRanks(of.ranks, [&](int rank, Communicator& communicator) {
    LanguageRun mine = options;
    mine.site.link.communicator = &communicator;
    const auto made = CreateReplica(mine);
    ASSERT_TRUE(made.ok()) << made.status();
    TorchReplica& replica = **made;
    absl::StatusOr<EvalStats> stats = absl::NotFoundError("none");
    for (int step = 1; step <= kSteps; ++step) {
      const auto trained = replica.Step(step);
      ASSERT_TRUE(trained.ok()) << trained.status();
      if (rank == 0) run.losses.push_back(trained->loss);
      if (step != kEvaluatedStep) continue;
      if (!beside) {
        stats = replica.Evaluate();
      } else {
        ASSERT_TRUE(replica.BeginEvaluation().ok());
      }
    }
    if (beside) {
      const auto taken = replica.TakeEvaluation(/*wait=*/true);
      ASSERT_TRUE(taken.ok()) << taken.status();
      stats = **taken;
    }
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_EQ(stats->tokens, 3 * 4 * 16);
    if (rank == 0) run.evaluated = stats->loss;
  });
  return run;
}

TEST(EvaluationBesideTest, GivesTheBitsOfTheSameEvaluationInTrainingsPlace) {
  for (const BesideCase& of :
       {BesideCase{}, BesideCase{.ranks = 3}, BesideCase{.preset = "zero3", .ranks = 2},
        BesideCase{.precision = ComputePrecision::kBfloat16}, BesideCase{.tied = true},
        BesideCase{.preset = "zero3", .ranks = 2, .blocks = Blocks::kAutograd, .tied = true},
        BesideCase{.preset = "zeropp", .ranks = 2, .precision = ComputePrecision::kBfloat16}}) {
    const BesideRun in_place = TrainAndEvaluate(of, false), beside = TrainAndEvaluate(of, true);
    EXPECT_EQ(beside.evaluated, in_place.evaluated) << of.preset << " on " << of.ranks;
    EXPECT_EQ(beside.losses, in_place.losses) << of.preset << " on " << of.ranks;
    EXPECT_NE(beside.evaluated, 0);
  }
}

TEST(EvaluationBesideTest, SeveralAreTakenInTheirOrder) {
  LanguageRun options = BesideOptions({});
  options.plan.evaluation_beside = {.evaluations = 2};
  const auto replica = CreateReplica(options).value();
  std::vector<double> expected, taken;
  for (int step = 1; step <= 2; ++step) {
    ASSERT_TRUE(replica->Step(step).ok());
    expected.push_back(replica->Evaluate()->loss);
    ASSERT_TRUE(replica->BeginEvaluation().ok());
  }
  for (int i = 0; i < 2; ++i) taken.push_back(replica->TakeEvaluation(true).value()->loss);
  EXPECT_EQ(taken, expected);
  EXPECT_NE(taken[0], taken[1]);
  // One that is not taken ends with the replica.
  ASSERT_TRUE(replica->BeginEvaluation().ok());
}

TEST(EvaluationThreadTest, WhoWaitsForAnEvaluationGivesUpAndSaysForWhat) {
  absl::Notification goes_on;
  EvaluationThread evaluating(1, absl::Milliseconds(20));
  evaluating.Begin([&](int64_t) -> absl::StatusOr<EvaluationThread::Sums> {
    goes_on.WaitForNotification();
    return EvaluationThread::Sums{1.5};
  });
  const absl::Status late = evaluating.Take().status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.message(),
              HasSubstr("an evaluation alongside training has not ended after 20ms"));
  goes_on.Notify();
  while (!evaluating.Done()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_THAT(*evaluating.Take(), testing::ElementsAre(EvaluationThread::Sums{1.5}));
}

TEST(EvaluationBesideTest, SaysWhatItTakesAndIsRefusedWithoutThatMemory) {
  LanguageRun options = BesideOptions({});
  options.plan.evaluation_beside = {.evaluations = 2};
  EXPECT_THAT(CreateReplica(options).value()->Describe(),
              HasSubstr("evaluates alongside training, with 0 MiB of each rank at most"));
  options.plan.evaluation_beside.host_bytes = 1 << 16;
  const absl::Status refused = CreateReplica(options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("evaluation.beside_training: this node needs"),
                                       HasSubstr("has 0.1 MiB left: 1 ranks of"),
                                       HasSubstr("2 copies of the weights of 0.1 MiB")));
  options.plan.evaluation_beside.host_bytes = 1 << 30;
  EXPECT_TRUE(CreateReplica(options).ok());
}

}  // namespace
}  // namespace longhaul
