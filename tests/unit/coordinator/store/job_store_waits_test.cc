// Rounds continue while files are written. Each hook runs on the writer's thread, so a lock that
// the writer held would never become free.
#include <memory>
#include <string>
#include <vector>

#include "common/io/file_util.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/log.h"
#include "gtest/gtest.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/hook_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

class JobStoreWaitsTest : public testing::Test {
 protected:
  JobStoreWaitsTest() {
    JobStoreOptions options = SmallOptions();
    options.down.kind = CodecKind::kE3m0;
    options.outer_momentum = 0.5;
    store_ = *JobStore::Create(&fs_, "j", ManifestWith(options));
    for (int i = 0; i < 5; ++i) Advance();
  }
  void AdvanceOne(int fragment) {
    const int64_t version = *store_->Version(fragment) + 1;
    const int64_t elements = store_->options().fragment_elements[fragment];
    const RoundKind kind = version == 0 ? RoundKind::kSeed : RoundKind::kOuter;
    ASSERT_TRUE(Round(*store_, fragment, kind, {NoiseOf(elements, version * 2 + fragment)}).ok());
  }
  void Advance() {
    for (const int fragment : {0, 1}) AdvanceOne(fragment);
    ASSERT_TRUE(store_->MaybeSnapshot().ok());
  }

  MemoryFileSystem memory_;
  HookFileSystem fs_{&memory_};
  std::unique_ptr<JobStore> store_;
};

// After so many rounds the snapshots and the log that the cut needs would be removed without its
// pin.
TEST_F(JobStoreWaitsTest, ACheckpointIsOneCutWhileRoundsContinue) {
  for (const int rounds : {0, 1, 20}) {
    SCOPED_TRACE(rounds);
    std::vector<std::string> expected;
    for (const int fragment : {0, 1}) {
      expected.emplace_back(BytesOf(OuterOf(*store_, fragment)));
    }
    const int64_t version = *store_->Version(0);
    fs_.OnCreate("step-00000030.tmp/fragment-000", [&] {
      for (int i = 0; i < rounds; ++i) Advance();
    });
    v1::CheckpointManifest manifest;
    manifest.set_step(30);
    const auto written = store_->WriteCheckpoint(manifest);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_TRUE(fs_.called());
    EXPECT_EQ(*store_->Version(1), version + rounds);
    for (const int fragment : {0, 1}) {
      EXPECT_EQ(written->fragments(fragment).version(), version);
      EXPECT_EQ(*ReadFile(memory_, JoinPath(written->path(), written->fragments(fragment).file()),
                          1 << 20),
                expected[fragment]);
    }
  }
  // The pin is gone, so the log becomes shorter again.
  for (int i = 0; i < 20; ++i) Advance();
  EXPECT_LT(memory_.List("j/log")->size(), 6u);
}

TEST_F(JobStoreWaitsTest, ASnapshotIsOneVersionWhileRoundsContinue) {
  const auto rounds = [&] {
    AdvanceOne(0);
    AdvanceOne(1);
  };
  fs_.OnCreate("fragment-00000", rounds);
  while (!fs_.called()) Advance();
  const Digest128 digest = store_->LastCommit(0)->digest;
  store_.reset();
  store_ = *JobStore::Recover(&fs_, "j");
  EXPECT_EQ(store_->recovery().snapshots_rejected, 0);
  EXPECT_EQ(store_->LastCommit(0)->digest, digest);
}

TEST_F(JobStoreWaitsTest, AppendsContinueWhileALogFileIsMade) {
  Log log(&fs_, "", {.file_bytes = 64 << 10, .salt = 1}, LogStart());
  int appended = 0;
  bool hooked = false;
  while (!hooked) {
    fs_.OnCreate(LogFileName(2), [&] {
      hooked = true;
      ASSERT_TRUE(log.Append(FrameType::kPart, "meanwhile", {}).ok());
      ASSERT_TRUE(log.Sync().ok());
      ++appended;
    });
    ASSERT_TRUE(log.Append(FrameType::kPart, "x", {}).ok());
    ++appended;
  }
  EXPECT_EQ(log.next_sequence(), 1u + appended);
}

}  // namespace
}  // namespace longhaul
