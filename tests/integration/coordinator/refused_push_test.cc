// Contributions that must not count: each is refused with its reason, and the job continues.
#include <limits>

#include "tests/integration/coordinator/exchange_fixture.h"

namespace longhaul {
namespace {

class RefusedPushTest : public ExchangeFixture {
 protected:
  void SetUp() override {
    ExchangeFixture::SetUp();
    members_ = MakeMembers({"site-a", "site-b"});
    SubmitAndBegin(Spec("target"), members_);
  }
  // Refused pushes left no trace: the job completes.
  void TearDown() override {
    Rounds(members_);
    Finish(members_, 2.5);
    EXPECT_TRUE(Await("target", v1::COMPLETED).ok());
  }

  HandPool& pool() { return members_[0]->pool; }
  HandPool::Outgoing Good() { return pool().Encode(1, 1, v1::OUTER, CodecKind::kFp32, Ramp(3)); }
  std::vector<v1::PushMessage> GoodMessages() {
    return pool().MessagesOf(Good(), CodecKind::kFp32);
  }
  void ExpectRefused(const absl::Status& status, absl::StatusCode code, const std::string& reason) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(ReasonOf(status), reason) << status;
  }

  Members members_;
};

TEST_F(RefusedPushTest, WrongVersion) {
  const absl::Status status = pool().Push(1, 5, v1::OUTER, CodecKind::kFp32, Ramp(1)).status();
  ExpectRefused(status, absl::StatusCode::kFailedPrecondition, "VERSION_MISMATCH");
  EXPECT_EQ(ErrorInfoOf(status)->metadata.at("have"), "0");
}

TEST_F(RefusedPushTest, WrongKindCodecWeightFragmentAndJob) {
  ExpectRefused(pool().Push(1, 1, v1::FINAL, CodecKind::kFp32, Ramp(1)).status(),
                absl::StatusCode::kFailedPrecondition, "KIND_MISMATCH");
  ExpectRefused(pool().Push(1, 1, v1::OUTER, CodecKind::kBf16, Ramp(1)).status(),
                absl::StatusCode::kInvalidArgument, "CODEC_MISMATCH");
  ExpectRefused(pool().Push(9, 1, v1::OUTER, CodecKind::kFp32, Ramp(1)).status(),
                absl::StatusCode::kNotFound, "FRAGMENT_UNKNOWN");
  HandPool::Outgoing outgoing = Good();
  outgoing.header.set_weight(2);
  EXPECT_TRUE(absl::IsInvalidArgument(pool().Send(outgoing, CodecKind::kFp32).status()));
  outgoing = Good();
  outgoing.header.set_job_id("no-such-job");
  ExpectRefused(pool().Send(outgoing, CodecKind::kFp32).status(), absl::StatusCode::kNotFound,
                "JOB_UNKNOWN");
  outgoing = Good();
  outgoing.header.set_incarnation("ffffffffffffffff");
  ExpectRefused(pool().Send(outgoing, CodecKind::kFp32).status(), absl::StatusCode::kAborted,
                "POOL_LOST");
}

TEST_F(RefusedPushTest, NoPlanOfAnUnknownJob) {
  const std::string job = Good().header.job_id();
  ExpectRefused(pool().OpenPlan("no-such-job").status(), absl::StatusCode::kNotFound,
                "JOB_UNKNOWN");
  EXPECT_TRUE(pool().OpenPlan(job).ok());
}

TEST_F(RefusedPushTest, NotANumber) {
  HandPool::Outgoing outgoing = Good();
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(outgoing.blocks->payload.data() + 4 * 200, &bad, sizeof(bad));
  const absl::Status status = pool().Send(outgoing, CodecKind::kFp32).status();
  ExpectRefused(status, absl::StatusCode::kInvalidArgument, "BAD_SEGMENT");
  EXPECT_EQ(ErrorInfoOf(status)->metadata.at("fragment"), "1");
  EXPECT_EQ(ErrorInfoOf(status)->metadata.at("block"), "0");
}

TEST_F(RefusedPushTest, BytesDamagedOnTheWay) {
  std::vector<v1::PushMessage> messages = GoodMessages();
  (*messages[1].mutable_payload())[17] ^= 1;
  ExpectRefused(pool().SendRaw(messages), absl::StatusCode::kDataLoss, "HASH_MISMATCH");
}

TEST_F(RefusedPushTest, TheStreamEndsEarly) {
  std::vector<v1::PushMessage> messages = GoodMessages();
  messages.pop_back();
  ExpectRefused(pool().SendRaw(messages), absl::StatusCode::kDataLoss, "STREAM_TRUNCATED");
}

TEST_F(RefusedPushTest, MoreThanTheFragmentCanBe) {
  std::vector<v1::PushMessage> messages = GoodMessages();
  messages[0].mutable_header()->set_payload_bytes(int64_t{1} << 40);
  EXPECT_TRUE(absl::IsResourceExhausted(pool().SendRaw(messages)));
  messages = GoodMessages();
  messages[0].mutable_header()->mutable_blocks(0)->set_count(1 << 30);
  EXPECT_FALSE(pool().SendRaw(messages).ok());
  messages = GoodMessages();
  messages[1].set_payload(std::string(3 << 20, 'x'));
  EXPECT_TRUE(absl::IsResourceExhausted(pool().SendRaw(messages)));
}

TEST_F(RefusedPushTest, ARepeatedPushCountsOnce) {
  for (int i = 0; i < 2; ++i) {
    const auto pushed =
        pool().Push(1, 1, v1::OUTER, CodecKind::kFp32, std::vector<float>(kElements, 0.5f));
    ASSERT_TRUE(pushed.ok()) << pushed.status();
    EXPECT_TRUE(pushed->contribution_complete());
  }
}

TEST_F(RefusedPushTest, PullsOfWhatIsNotThere) {
  ExpectRefused(pool().Pull(1, 4, false, kElements).status(), absl::StatusCode::kFailedPrecondition,
                "VERSION_MISMATCH");
  EXPECT_TRUE(absl::IsInvalidArgument(pool().Pull(1, -1, true, 2 * kElements).status()));
  // Only -1 means the newest.
  for (const auto& [version, whole] : {std::pair(-5, true), {-2, true}, {-1, false}}) {
    const absl::Status status = pool().Pull(1, version, whole, kElements).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << version << status;
    ASSERT_EQ(FieldViolationsOf(status).size(), 1u);
    EXPECT_EQ(FieldViolationsOf(status)[0].field, "version");
  }
  HandPool stranger(address(), "stranger");
  EXPECT_FALSE(stranger.Pull(1, -1, true, kElements).ok());
}

// The numbers of a report are bounded where they can be: nobody is refused for them.
TEST_F(RefusedPushTest, APoolIsNotBeyondItsJob) {
  v1::HeartbeatRequest report;
  for (const int64_t step : {int64_t{1} << 62, int64_t{-5}}) {
    report.mutable_progress()->set_inner_step(step);
    ASSERT_TRUE(pool().Heartbeat(report).ok());
    const auto job = Get("target");
    ASSERT_TRUE(job.ok()) << job.status();
    const int64_t last = job->spec().train().steps();
    EXPECT_LE(job->inner_step(), last);
    ASSERT_EQ(job->pools_size(), 1);
    EXPECT_EQ(job->pools(0).inner_step(), step > 0 ? last : 0);
  }
}

}  // namespace
}  // namespace longhaul
