#include "worker/session/evaluations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/io/digest.h"
#include "worker/replica/synthetic_replica.h"

namespace longhaul::session {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kPatientElements = 128;

// A synthetic replica whose evaluations take as long as the test wants.
class PatientReplica : public Replica {
 public:
  PatientReplica(int beside, ManualClock& clock)
      : inner_(*SyntheticReplica::Create({.units = 1,
                                          .elements = kPatientElements,
                                          .initial = 1,
                                          .inner_delta = 0.5,
                                          .evaluations_beside = beside})),
        clock_(clock) {}

  const ModelLayout& layout() const override { return inner_->layout(); }
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  absl::StatusOr<StepStats> Step(int64_t step) override { return inner_->Step(step); }
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) override {
    return inner_->Read(unit, offset, out);
  }
  absl::Status Write(int unit, int64_t offset, absl::Span<const float> in) override {
    return inner_->Write(unit, offset, in);
  }
  absl::Status Publish(absl::Span<const int> units) override { return inner_->Publish(units); }
  absl::StatusOr<EvalStats> Evaluate() override {
    clock_.Advance(absl::Seconds(1));
    return inner_->Evaluate();
  }
  int EvaluationsBeside() const override { return inner_->EvaluationsBeside(); }
  absl::Status BeginEvaluation() override { return inner_->BeginEvaluation(); }
  absl::StatusOr<std::optional<EvalStats>> TakeEvaluation(bool wait) override {
    if (!wait && done_ == 0) return std::optional<EvalStats>();
    if (done_ == 0) clock_.Advance(absl::Seconds(3));
    done_ = std::max(0, done_ - 1);
    return inner_->TakeEvaluation(wait);
  }
  absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(
      absl::Span<const int64_t> values) override {
    return inner_->AllGather(values);
  }

  int done_ = 0;  // So many evaluations need not be waited for.

 private:
  std::unique_ptr<SyntheticReplica> inner_;
  ManualClock& clock_;
};

// The outer parameters are all 8; the live ones begin at 1 and grow by 0.5 a step.
class EvaluationsTest : public testing::Test {
 protected:
  EvaluationsTest() {
    exact_ = *MakeCodec({.kind = CodecKind::kFp32});
    const FragmentLayout layout{
        .name = "0", .units = {{0, 0, kPatientElements}}, .elements = kPatientElements};
    fragments_.push_back(std::make_unique<OuterFragment>(
        FragmentMap(layout, OwnedBlocks(layout, 0, 1)),
        OuterFragment::Options{.up = exact_.get(), .down = exact_.get(), .exact = exact_.get()}));
    const std::vector<float> outer(kPatientElements, 8);
    PulledParameters pulled = fragments_[0]->BeginWhole();
    pulled.SetParts(1);
    pulled.Begin(0);
    const CodedChunk chunk{
        .segments = {{.first_block = 0, .elements = kPatientElements}},
        .pieces = {{reinterpret_cast<const uint8_t*>(outer.data()), outer.size() * 4}}};
    EXPECT_TRUE(pulled.Take(0, chunk).ok());
    EXPECT_TRUE(pulled.Verify(1, {DigestOf(BytesOf(outer))}).ok());
    fragments_[0]->LoadWhole(0, std::move(pulled));
  }

  void Make(int beside) {
    replica_ = std::make_unique<PatientReplica>(beside, clock_);
    observer_.on_evaluation = [this](const EvaluationResult& result) {
      told_.push_back({result.step, result.version, result.loss, result.of_pool});
    };
    observer_.on_compute = [this](int64_t step) { computes_ = step == 0; };
    observer_.on_computed = [this](int64_t step, absl::Duration) {
      EXPECT_TRUE(std::exchange(computes_, false));
      waited_for_ += step == 0;
    };
    evaluations_ =
        std::make_unique<Evaluations>(*replica_, fragments_, clock_, steps_max_, observer_);
  }
  // A step of a second, and what follows it.
  void Step(int64_t step, bool steps_follow = true) {
    ASSERT_TRUE(replica_->Step(step).ok());
    clock_.Advance(absl::Seconds(1));
    ASSERT_TRUE(evaluations_->AfterStep(step, steps_follow).ok());
  }
  float Live() {
    float value = 0;
    EXPECT_TRUE(replica_->Read(0, 0, absl::MakeSpan(&value, 1)).ok());
    return value;
  }

  struct Told {
    int64_t step, version;
    double loss;
    bool of_pool;
    bool operator==(const Told&) const = default;
  };
  ManualClock clock_;
  std::unique_ptr<Codec> exact_;
  std::vector<std::unique_ptr<OuterFragment>> fragments_;
  std::unique_ptr<PatientReplica> replica_;
  int64_t steps_max_ = 0;
  SessionObserver observer_;
  bool computes_ = false;
  int waited_for_ = 0;  // Evaluations for which training waited.
  std::unique_ptr<Evaluations> evaluations_;
  std::vector<Told> told_;
};

TEST_F(EvaluationsTest, InTrainingsPlaceByDefault) {
  Make(0);
  Step(1);
  ASSERT_TRUE(evaluations_->Do({.version = 1, .step = 1}, true).ok());
  ASSERT_TRUE(evaluations_->Do({.version = 1, .step = 1, .of_pool = true}, true).ok());
  EXPECT_THAT(told_, ElementsAre(Told{1, 1, 8, false}, Told{1, 1, 1.5, true}));
  EXPECT_FALSE(evaluations_->beside());
  EXPECT_EQ(evaluations_->stood_still(), absl::Seconds(2));
  EXPECT_EQ(evaluations_->busy(clock_.Now()), absl::Seconds(2));
  EXPECT_EQ(waited_for_, 2);
}

TEST_F(EvaluationsTest, BesideTrainingOfTheParametersOfTheStepThatIsNamed) {
  Make(2);
  Step(4);
  ASSERT_TRUE(evaluations_->Do({.version = 2, .step = 4}, true).ok());
  ASSERT_TRUE(evaluations_->Do({.version = 2, .step = 4, .of_pool = true}, true).ok());
  EXPECT_EQ(Live(), 1.5f) << "the live parameters came back";
  EXPECT_EQ(waited_for_, 0);
  Step(5);
  Step(6);
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_TRUE(evaluations_->beside());
  replica_->done_ = 1;
  Step(7);
  EXPECT_THAT(told_, ElementsAre(Told{4, 2, 8, false}));
  replica_->done_ = 1;
  Step(8);
  EXPECT_THAT(told_, ElementsAre(Told{4, 2, 8, false}, Told{4, 2, 1.5, true}));
  Step(9);
  EXPECT_FALSE(evaluations_->beside());
  EXPECT_EQ(evaluations_->stood_still(), absl::ZeroDuration());
  EXPECT_EQ(evaluations_->busy(clock_.Now()), absl::Seconds(4)) << "steps 5 to 8";
}

TEST_F(EvaluationsTest, OneTooManyWaitsForTheOldest) {
  Make(1);
  ASSERT_TRUE(evaluations_->Do({.version = 1, .step = 1, .of_pool = true}, true).ok());
  Step(2);
  ASSERT_TRUE(evaluations_->Do({.version = 2, .step = 2, .of_pool = true}, true).ok());
  EXPECT_THAT(told_, ElementsAre(Told{1, 1, 1, true}));
  EXPECT_EQ(evaluations_->stood_still(), absl::Seconds(3));
  EXPECT_TRUE(evaluations_->beside());
}

TEST_F(EvaluationsTest, AResultIsLateByTheStepsThatAreAllowedAtMost) {
  steps_max_ = 3;
  Make(2);
  ASSERT_TRUE(evaluations_->Do({.version = 1, .step = 1, .of_pool = true}, true).ok());
  Step(2);
  Step(3);
  ASSERT_TRUE(evaluations_->Do({.version = 2, .step = 3, .of_pool = true}, true).ok());
  EXPECT_THAT(told_, IsEmpty());
  Step(4);
  EXPECT_THAT(told_, ElementsAre(Told{1, 1, 1, true}));
  EXPECT_EQ(evaluations_->stood_still(), absl::Seconds(3));
  EXPECT_TRUE(evaluations_->beside()) << "the second is not late";
}

TEST_F(EvaluationsTest, TheLastStepLeavesNoneBehind) {
  Make(2);
  ASSERT_TRUE(evaluations_->Do({.version = 1, .step = 1, .of_pool = true}, true).ok());
  Step(2, /*steps_follow=*/false);
  EXPECT_THAT(told_, ElementsAre(Told{1, 1, 1, true}));
  ASSERT_TRUE(evaluations_->Do({.version = 2, .step = 2, .final = true}, false).ok());
  EXPECT_THAT(told_, ElementsAre(Told{1, 1, 1, true}, Told{2, 2, 8, false}));
  EXPECT_FALSE(evaluations_->beside()) << "there is nothing to do it beside";
}

}  // namespace
}  // namespace longhaul::session
