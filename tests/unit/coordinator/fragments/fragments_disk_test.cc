// What a full disk, and checkpoints that take long, hold up.
#include "absl/strings/match.h"
#include "coordinator/fragments/part_intake.h"
#include "tests/unit/coordinator/fragments/fragments_testing.h"

namespace longhaul::coordinator {
namespace {

// Checkpoints of large models take long, and logs grow until there are snapshots.
TEST_F(FragmentsTest, SnapshotsDoNotWaitBehindCheckpoints) {
  HandCrank snapshots;
  Fragments fragments({.data_dir = "data", .tile_threads = 1}, {.fs = &failing_,
                                                                .arbiter = &arbiter_,
                                                                .apply = &apply_,
                                                                .opening = &opening_,
                                                                .background = &background_,
                                                                .snapshots = &snapshots,
                                                                .metrics = &metrics_,
                                                                .log = &log_});
  const std::shared_ptr<JobFragments> job = Job("job", kElements);
  fragments.Add(job);
  fragments.Open("job", true,
                 [](absl::StatusOr<StoreContents> opened) { EXPECT_TRUE(opened.ok()); });
  opening_.RunAll();
  std::vector<float> values(kElements, 0.5f);
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values.data()),
                                        values.size() * sizeof(float));
  PartIntake intake(job, job->store(), {0, 0, "a", "1"}, RoundKind::kSeed);
  ASSERT_TRUE(intake
                  .Take({.segments = {{0, kElements}},
                         .pieces = {bytes},
                         .payload_bytes = static_cast<int64_t>(bytes.size())})
                  .ok());
  ASSERT_TRUE(intake.Finish().ok());
  fragments.Apply("job", Seed(), [](absl::StatusOr<CommitRecord> commit) {
    EXPECT_TRUE(commit.ok()) << commit.status();
  });
  apply_.RunAll();
  EXPECT_TRUE(snapshots.RunOne());
  EXPECT_FALSE(background_.RunOne());
}

TEST_F(FragmentsTest, AStoreThatFindsNoRoomIsATroubleOfTheDiskUntilItIsOpened) {
  failing_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kPreallocate ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
  });
  EXPECT_FALSE(Open("job", true).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(fragments_.Health())) << fragments_.Health();
  failing_.SetDecision(nullptr);
  ASSERT_TRUE(Open("job", true).ok());
  EXPECT_TRUE(fragments_.Health().ok()) << fragments_.Health();
}

// The job waits for it alone.
TEST_F(FragmentsTest, AFinalCheckpointWithoutRoomIsATroubleOfTheDiskUntilItIsWritten) {
  ASSERT_TRUE(Open("job", true).ok());
  ASSERT_TRUE(Push("job").ok());
  ASSERT_TRUE(Apply("job", Seed()).ok());
  failing_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kWrite ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
  });
  EXPECT_FALSE(Checkpoint("job").ok());
  EXPECT_TRUE(fragments_.Health().ok()) << "training goes on without this one";
  EXPECT_FALSE(Checkpoint("job", 60, /*final=*/true).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(fragments_.Health())) << fragments_.Health();
  EXPECT_TRUE(absl::StrContains(fragments_.Health().message(), "no space"));
  EXPECT_EQ(fragments_.Find("job")->full(), "no space");
  failing_.SetDecision(nullptr);
  EXPECT_TRUE(Checkpoint("job", 60, /*final=*/true).ok());
  EXPECT_TRUE(fragments_.Health().ok());
  failing_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kWrite ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
  });
  EXPECT_FALSE(Checkpoint("job", 60, /*final=*/true).ok());
  fragments_.Retire("job");
  EXPECT_TRUE(fragments_.Health().ok()) << "the job was cancelled";
}

}  // namespace
}  // namespace longhaul::coordinator
