#include "coordinator/effects/owner_arbiter.h"

#include "common/rpc/status_details.h"
#include "tests/unit/coordinator/effects/performer_testing.h"

namespace longhaul::coordinator {
namespace {

class OwnerArbiterTest : public PerformerTest {
 protected:
  OwnerArbiterTest() : id_(RunPair()) { arbiter_.Connect(performer_.get(), &thread_); }
  ContributionId Of(const std::string& pool, int64_t version = 1) const {
    return {id_, pool, "1", {0, version, RoundKind::kOuter}};
  }
  static std::string ReasonOf(const absl::Status& status) {
    return ErrorInfoOf(status).value_or(ErrorDetail{}).reason;
  }

  const std::string id_;
  ManualClock clock_;
  OwnerThread thread_{{.tick_period = absl::Hours(1)}, &clock_, [] {}};
  OwnerArbiter arbiter_;
};

TEST_F(OwnerArbiterTest, QuestionsAreAnsweredWithoutTheOwnerThread) {
  thread_.Stop();
  EXPECT_TRUE(arbiter_.Judge(Of("b")).ok());
  EXPECT_EQ(ReasonOf(arbiter_.Judge(Of("b", 7))), "VERSION_MISMATCH");
  EXPECT_TRUE(arbiter_.CheckReader(id_, "b", "1").ok());
  EXPECT_EQ(ReasonOf(arbiter_.CheckReader(id_, "c", "1")), "NOT_ASSIGNED");
}

TEST_F(OwnerArbiterTest, AWholeContributionCountsWhenCompleteReturns) {
  EXPECT_TRUE(arbiter_.Complete(Of("b")).ok());
  EXPECT_EQ(performer_->View(id_)->fragments[0].contributors.size(), 2);
  EXPECT_TRUE(arbiter_.Complete(Of("b")).ok()) << "repeated";
  EXPECT_EQ(ReasonOf(arbiter_.Complete(Of("b", 7))), "VERSION_MISMATCH");
  // What follows an answer takes effect on the owner thread, after the answer.
  thread_.Stop();
  EXPECT_EQ(Taken(), Trace{"begin apply"});
}

TEST_F(OwnerArbiterTest, AStoreThatFailedQuarantinesItsJob) {
  arbiter_.ReportStoreFailure(id_, absl::DataLossError("input/output error"));
  thread_.Stop();
  EXPECT_EQ(performer_->View(id_)->state, JobState::kQuarantined);
  EXPECT_EQ(performer_->View(id_)->fault->code, "DATA_LOSS");
  EXPECT_EQ(performer_->Find(id_)->fragments->store(), nullptr) << "its state takes no memory";
  EXPECT_TRUE(performer_->health().ok());
}

TEST_F(OwnerArbiterTest, WithoutTheOwnerThreadNothingIsDecided) {
  thread_.Stop();
  EXPECT_TRUE(absl::IsResourceExhausted(arbiter_.Complete(Of("b"))));
  arbiter_.ReportStoreFailure(id_, absl::DataLossError("input/output error"));
  EXPECT_EQ(performer_->View(id_)->state, JobState::kRunning);
}

}  // namespace
}  // namespace longhaul::coordinator
