#include "coordinator/service/messages.h"

#include <gtest/gtest.h>

#include "coordinator/core/coordinator.h"
#include "coordinator/pool/set_aside.h"
#include "coordinator/service/pool_messages.h"

namespace longhaul::coordinator {
namespace {

TEST(MessagesTest, NumbersAreThoseOfTheContract) {
  for (RoundKind kind :
       {RoundKind::kSeed, RoundKind::kOuter, RoundKind::kFinal, RoundKind::kSkipped}) {
    EXPECT_EQ(RoundKindFromProto(ToProto(kind)), kind);
  }
  EXPECT_FALSE(RoundKindFromProto(v1::ROUND_KIND_UNSPECIFIED).has_value());
  EXPECT_FALSE(RoundKindFromProto(static_cast<v1::RoundKind>(77)).has_value());
  for (JobState state :
       {JobState::kPending, JobState::kSeeding, JobState::kRunning, JobState::kFinishing,
        JobState::kCompleted, JobState::kFailed, JobState::kCancelled, JobState::kQuarantined}) {
    EXPECT_EQ(v1::JobState_Name(static_cast<v1::JobState>(state)), JobStateName(state));
  }
  EXPECT_EQ(static_cast<v1::PoolState>(PoolState::kIdle), v1::IDLE);
  EXPECT_EQ(static_cast<v1::PoolState>(PoolState::kAssigned), v1::ASSIGNED);
  EXPECT_EQ(static_cast<v1::PoolState>(PoolState::kParticipating), v1::PARTICIPATING);
  EXPECT_EQ(static_cast<v1::PoolState>(PoolState::kAway), v1::AWAY);
  EXPECT_EQ(static_cast<v1::PoolState>(PoolState::kLost), v1::LOST);
  EXPECT_EQ(static_cast<v1::PoolState>(PoolState::kDraining), v1::DRAINING);
  EXPECT_EQ(static_cast<v1::PoolState>(PoolState::kForming), v1::FORMING);
  EXPECT_FALSE(v1::PoolState_IsValid(static_cast<int>(PoolState::kForming) + 1));
  EXPECT_EQ(static_cast<v1::Codec>(CodecKind::kFp32), v1::FP32);
  EXPECT_EQ(static_cast<v1::Codec>(CodecKind::kE3m0), v1::E3M0);
  EXPECT_EQ(static_cast<v1::Codec>(CodecKind::kTopk2), v1::TOPK2);
}

TEST(MessagesTest, ACommitKeepsEveryField) {
  CommitRecord commit;
  commit.round.fragment = 3;
  commit.round.version = 7;
  commit.round.kind = RoundKind::kFinal;
  commit.digest = {1, 2};
  commit.pools = {"b", "a"};
  commit.incarnations = {"4", "9"};
  commit.evaluator = "a";
  commit.downlink_nmse = 0.5;
  commit.outer_gradient_norm = 2;
  commit.outer_parameter_norm = 3;
  commit.downlink_bytes = 99;
  const v1::Commit message = ToProto(commit, "job");
  EXPECT_EQ(message.job_id(), "job");
  EXPECT_EQ(message.fragment(), 3);
  EXPECT_EQ(message.version(), 7);
  EXPECT_EQ(message.kind(), v1::FINAL);
  EXPECT_EQ(message.digest().high(), 1u);
  EXPECT_EQ(message.digest().low(), 2u);
  ASSERT_EQ(message.pools_size(), 2);
  EXPECT_EQ(message.pools(0), "b");
  ASSERT_EQ(message.incarnations_size(), 2);
  EXPECT_EQ(message.incarnations(1), "9");
  EXPECT_EQ(message.evaluator(), "a");
  EXPECT_EQ(message.downlink_nmse(), 0.5);
  EXPECT_EQ(message.outer_gradient_norm(), 2);
  EXPECT_EQ(message.outer_parameter_norm(), 3);
  EXPECT_EQ(message.downlink_bytes(), 99);
}

TEST(MessagesTest, FaultsGoBothWays) {
  const JobFault fault =
      FromProto(ToProto(JobFault{"NOT_FOUND", "no file", "data.text.path", "make it", "a"}));
  EXPECT_EQ(fault.code, "NOT_FOUND");
  EXPECT_EQ(fault.message, "no file");
  EXPECT_EQ(fault.field, "data.text.path");
  EXPECT_EQ(fault.hint, "make it");
  EXPECT_EQ(fault.pool, "a");
}

TEST(MessagesTest, TextsOfAPoolsFaultAreBoundedBetweenCharacters) {
  v1::JobError error;
  error.set_code("NOT_FOUND");
  error.set_message(std::string(kFaultTextBytesMax - 1, 'x') + "\u20ac and more");
  error.set_hint(std::string(size_t{1} << 20, 'y'));
  const JobFault fault = FromProto(error);
  EXPECT_EQ(fault.code, "NOT_FOUND");
  EXPECT_EQ(fault.message, std::string(kFaultTextBytesMax - 1, 'x'));
  EXPECT_EQ(fault.hint, std::string(kFaultTextBytesMax, 'y'));
}

TEST(MessagesTest, TimesBelowASecondAndBeforeTheEpoch) {
  const google::protobuf::Timestamp time = ToProto(absl::UnixEpoch() - absl::Milliseconds(250));
  EXPECT_EQ(time.seconds(), -1);
  EXPECT_EQ(time.nanos(), 750000000);
  const google::protobuf::Duration duration = ToProto(absl::Milliseconds(1500));
  EXPECT_EQ(duration.seconds(), 1);
  EXPECT_EQ(duration.nanos(), 500000000);
}

// A pool that was away repeats what is not acknowledged: all up to a step.
TEST(MessagesTest, ManyEvaluationsAreTakenAFewAtATimeAndThoseOfAStepTogether) {
  v1::HeartbeatRequest request;
  for (int i = 0; i < 64; ++i) request.add_evaluations()->set_step(i);
  EXPECT_EQ(EvaluationsTaken(request), 64);
  request.add_evaluations()->set_step(64);
  EXPECT_EQ(CommandOf(request).evaluations.size(), 64u);
  request.mutable_evaluations(64)->set_step(63);
  EXPECT_EQ(CommandOf(request).evaluations.size(), 63u);
  for (v1::Evaluation& evaluation : *request.mutable_evaluations()) evaluation.set_step(7);
  EXPECT_EQ(EvaluationsTaken(request), 64) << "no pool has so many of one step";
}

// Its comments have these numbers.
TEST(MessagesTest, TheContractSaysHowLongIsWaited) {
  EXPECT_EQ(CoordinatorOptions().finish, absl::Seconds(60)) << "EvaluationSpec.every_cycles";
  EXPECT_EQ(SetAsides::kDelay, absl::Seconds(5)) << "SetAside";
  EXPECT_EQ(SetAsides::kDelayMax, absl::Minutes(10)) << "SetAside";
}

}  // namespace
}  // namespace longhaul::coordinator
