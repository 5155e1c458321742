#include "coordinator/store/damaged_part.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/io/file_util.h"
#include "coordinator/store/check.h"
#include "coordinator/store/fatal.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

class DamagedPartTest : public testing::Test {
 protected:
  DamagedPartTest() {
    JobStoreOptions options = SmallOptions();
    options.snapshot_every = 100;
    store_ = *JobStore::Create(&fs_, dir_, ManifestWith(options));
    for (const int fragment : {0, 1}) {
      const int64_t elements = options.fragment_elements[fragment];
      EXPECT_TRUE(Round(*store_, fragment, RoundKind::kSeed, {NoiseOf(elements, 1)}).ok());
    }
  }
  Contribution PushOf(const std::string& pool) {
    return *Push(*store_, {0, 1, RoundKind::kOuter, pool, CodecKind::kFp32, {}, "1"},
                 NoiseOf(1000, pool.back()));
  }
  // Changes a byte of the part on the disk.
  void Damage(const StoredPart& part, int64_t byte) {
    const auto file = *fs_.Open(JoinPath(LogFolder(dir_), LogFileName(part.payload.file)));
    char value = 0;
    ASSERT_TRUE(file->ReadExactly(part.body().offset + byte, {&value, 1}).ok());
    value ^= 4;
    ASSERT_TRUE(file->WriteAt(part.body().offset + byte, {&value, 1}).ok());
  }
  void Reopen() {
    store_.reset();
    auto recovered = JobStore::Recover(&fs_, dir_);
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    store_ = *std::move(recovered);
  }

  MemoryFileSystem fs_;
  std::string dir_ = "jobs/j";
  std::unique_ptr<JobStore> store_;
};

// The outer step works in place. So a byte that the disk changed is found before it, and the job
// goes on when the pool has sent the part again.
TEST_F(DamagedPartTest, IsNotAveraged) {
  const Contribution whole = PushOf("a");
  for (const bool in_head : {false, true}) {
    Contribution damaged = PushOf("b");
    const StoredPart& part = damaged.parts[1];
    Damage(part, in_head ? 6 : part.head_bytes + 100);
    const std::vector<float> before = OuterOf(*store_, 0);
    const absl::Status refused =
        store_->Apply({0, 1, RoundKind::kOuter, {whole, damaged}, ""}).status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
    EXPECT_FALSE(IsFatal(refused));
    EXPECT_THAT(std::string(refused.message()),
                testing::AllOf(testing::HasSubstr(LogFileName(part.payload.file)),
                               testing::HasSubstr(absl::StrCat("byte ", part.body().offset))));
    const std::optional<DamagedPart> named = DamagedPartOf(refused);
    ASSERT_TRUE(named.has_value());
    EXPECT_EQ(named->round, (RoundId{0, 1}));
    EXPECT_EQ(named->pool, "b");
    EXPECT_EQ(named->incarnation, "1");
    EXPECT_EQ(named->sequence, part.sequence);
    EXPECT_EQ(*store_->Version(0), 0);
    EXPECT_EQ(OuterOf(*store_, 0), before);
  }
  const auto commit = store_->Apply({0, 1, RoundKind::kOuter, {whole, PushOf("b")}, ""});
  ASSERT_TRUE(commit.ok()) << commit.status();
  // The damaged frames are still in the log, before a commit that was acknowledged.
  Reopen();
  EXPECT_EQ(store_->recovery().parts_rejected, 2);
  EXPECT_EQ(*store_->Version(0), 1);
  EXPECT_EQ(store_->LastCommit(0)->digest, commit->digest);
  EXPECT_FALSE(DamagedPartOf(absl::DataLossError("another")).has_value());
}

// Recovery forgets the part, and keeps everything else: also the commits after it.
TEST_F(DamagedPartTest, IsLeftOutByRecovery) {
  const Contribution damaged = PushOf("a"), whole = PushOf("b");
  ASSERT_TRUE(Round(*store_, 1, RoundKind::kOuter, {NoiseOf(384, 5)}).ok());
  // It shows that the frames before the commit were durable.
  ASSERT_TRUE(
      Push(*store_, {1, 2, RoundKind::kOuter, "b", CodecKind::kFp32, {}}, NoiseOf(384, 6)).ok());
  Damage(damaged.parts[0], damaged.parts[0].head_bytes);
  Reopen();
  EXPECT_EQ(store_->recovery().parts_rejected, 1);
  EXPECT_EQ(*store_->Version(1), 1);
  std::vector<StoredPart> pending = store_->TakePending();
  ASSERT_EQ(pending.size(), 5u);
  EXPECT_EQ(pending[0].sequence, damaged.parts[1].sequence);
  const auto commit = store_->Apply(
      {0, 1, RoundKind::kOuter, {{.pool = "b", .parts = {pending[1], pending[2]}}}, ""});
  EXPECT_TRUE(commit.ok()) << commit.status();
}

// It was found damaged, and the coordinator ended before it wrote anything else. The part is not
// the torn end of the log, so the commit after it counts.
TEST_F(DamagedPartTest, IsNoTornEndOnceItWasFound) {
  const Contribution damaged = PushOf("a");
  ASSERT_TRUE(Round(*store_, 1, RoundKind::kOuter, {NoiseOf(384, 5)}).ok());
  Damage(damaged.parts[0], damaged.parts[0].head_bytes);
  const absl::Status refused = store_->Apply({0, 1, RoundKind::kOuter, {damaged}, ""}).status();
  ASSERT_TRUE(DamagedPartOf(refused).has_value()) << refused;
  Reopen();
  EXPECT_EQ(store_->recovery().parts_rejected, 1);
  EXPECT_EQ(*store_->Version(1), 1);
}

// An interrupted write of a part is left in the file before: the log went on in the next file with
// a part of the same sequence, which the disk changed later.
TEST_F(DamagedPartTest, MayFollowATornPartOfItsSequence) {
  const Contribution torn = PushOf("a");
  Damage(torn.parts[0], torn.parts[0].head_bytes);
  Reopen();
  EXPECT_EQ(store_->recovery().parts_rejected, 0);
  const Contribution damaged = PushOf("b");
  EXPECT_EQ(damaged.parts[0].sequence, torn.parts[0].sequence);
  EXPECT_GT(damaged.parts[0].payload.file, torn.parts[0].payload.file);
  ASSERT_TRUE(Round(*store_, 1, RoundKind::kOuter, {NoiseOf(384, 5)}).ok());
  const Contribution last = PushOf("c");
  Damage(damaged.parts[0], damaged.parts[0].head_bytes);
  Reopen();
  EXPECT_EQ(store_->recovery().parts_rejected, 1);
  EXPECT_EQ(*store_->Version(1), 1);
}

// A fragment that is not seeded needs the log from its first frame on. A part there that is left
// out is no frame that is missing.
TEST_F(DamagedPartTest, MayBeTheFirstFrameOfTheLog) {
  dir_ = "data/jobs/first";
  store_ = *JobStore::Create(&fs_, dir_, ManifestWith(SmallOptions()));
  const auto damaged =
      Push(*store_, {0, 0, RoundKind::kSeed, "a", CodecKind::kFp32, {}, "1"}, NoiseOf(1000, 1));
  ASSERT_TRUE(damaged.ok()) << damaged.status();
  ASSERT_EQ(damaged->parts[0].sequence, 1u);
  ASSERT_TRUE(Round(*store_, 1, RoundKind::kSeed, {NoiseOf(384, 5)}).ok());
  ASSERT_TRUE(
      Push(*store_, {1, 1, RoundKind::kOuter, "b", CodecKind::kFp32, {}}, NoiseOf(384, 6)).ok());
  Damage(damaged->parts[0], damaged->parts[0].head_bytes);
  Reopen();
  EXPECT_EQ(store_->recovery().parts_rejected, 1);
  EXPECT_EQ(*store_->Version(0), -1);
  EXPECT_EQ(*store_->Version(1), 0);
  store_.reset();
  const std::vector<std::string> findings = CheckDataFolder(fs_, "data", 1).findings;
  EXPECT_THAT(findings, testing::Contains(testing::HasSubstr("is damaged at byte")));
  EXPECT_THAT(findings, testing::Each(testing::Not(testing::HasSubstr("begins later"))));
}

TEST_F(DamagedPartTest, IsALossOnceItIsCommitted) {
  const Contribution committed = PushOf("a");
  ASSERT_TRUE(store_->Apply({0, 1, RoundKind::kOuter, {committed}, ""}).ok());
  ASSERT_TRUE(Round(*store_, 1, RoundKind::kOuter, {NoiseOf(384, 5)}).ok());
  Damage(committed.parts[0], committed.parts[0].head_bytes);
  store_.reset();
  const absl::Status refused = JobStore::Recover(&fs_, "jobs/j").status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr(absl::StrCat("frame ", committed.parts[0].sequence)));
}

}  // namespace
}  // namespace longhaul
