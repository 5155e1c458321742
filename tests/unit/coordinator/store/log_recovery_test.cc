#include "coordinator/store/log_recovery.h"

#include <memory>
#include <string>

#include "common/io/file_util.h"
#include "common/io/memory_filesystem.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

constexpr LogFileOptions kOptions = {.file_bytes = 5 * 4096,
                                     .salt = 9};  // four frames of one block

class LogRecoveryTest : public testing::Test {
 protected:
  // Appends `frames` frames and syncs after the first `synced`.
  void Write(int frames, int synced) {
    Log log(&fs_, "", kOptions, LogStart());
    for (int i = 0; i < frames; ++i) {
      ASSERT_TRUE(log.Append(FrameType::kPart, "body " + std::to_string(i), {}).ok());
      if (i + 1 == synced) {
        ASSERT_TRUE(log.Sync().ok());
      }
    }
  }
  void Flip(int64_t number, int64_t offset) {
    auto file = *fs_.Open(LogFileName(number));
    char byte = 0;
    ASSERT_TRUE(file->ReadExactly(offset, {&byte, 1}).ok());
    byte ^= 1;
    ASSERT_TRUE(file->WriteAt(offset, {&byte, 1}).ok());
  }
  absl::StatusOr<RecoveredLog> Recover(uint64_t durable_upto = 0) {
    return RecoverLog(fs_, "", {.salt = kOptions.salt, .durable_upto = durable_upto});
  }

  MemoryFileSystem fs_;
};

TEST_F(LogRecoveryTest, AnEmptyLogBeginsAtOne) {
  const auto log = Recover();
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->start.next_sequence, 1u);
  EXPECT_EQ(log->start.next_file, 1);
}

TEST_F(LogRecoveryTest, FindsEveryFrameAndGoesOn) {
  Write(6, 6);
  auto recovered = Recover();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  ASSERT_EQ(recovered->frames.size(), 6u);
  EXPECT_EQ(recovered->frames[4].body.file, 2);
  EXPECT_EQ(recovered->torn_bytes, 0);
  EXPECT_EQ(recovered->start.next_sequence, 7u);
  Log log(&fs_, "", kOptions, std::move(recovered->start));
  EXPECT_EQ(log.Append(FrameType::kPart, "more", {})->sequence, 7u);
  EXPECT_EQ(Recover()->frames.size(), 7u);
}

TEST_F(LogRecoveryTest, CutsOffATornTail) {
  Write(4, 2);
  Flip(1, 3 * 4096 + 81);  // the third frame's body; nothing shows that it was durable
  const auto recovered = Recover();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->frames.size(), 2u);
  EXPECT_GT(recovered->torn_bytes, 0);
  EXPECT_EQ(*(*fs_.Open(LogFileName(1)))->Size(), 3 * 4096);
}

// The fourth frame was whole and comes after the torn third: that alone is no damage.
TEST_F(LogRecoveryTest, AWholeFrameAfterATornOneIsNoDamage) {
  Write(4, 2);
  Flip(1, 3 * 4096 + 10);
  EXPECT_EQ(Recover()->frames.size(), 2u);
}

TEST_F(LogRecoveryTest, RefusesDamageBelowALaterFramesMark) {
  Write(4, 3);
  Flip(1, 3 * 4096 + 81);
  const absl::Status refused = Recover().status();
  EXPECT_TRUE(absl::IsDataLoss(refused));
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::HasSubstr("0000000001.log"),
                             testing::HasSubstr("byte 12288"), testing::HasSubstr("frame 3")));
}

TEST_F(LogRecoveryTest, RefusesDamageBelowASnapshotsMark) {
  Write(4, 0);
  Flip(1, 3 * 4096 + 81);
  EXPECT_TRUE(absl::IsDataLoss(Recover(4).status()));
  EXPECT_TRUE(Recover(3).ok());
}

TEST_F(LogRecoveryTest, RefusesDamageInAnEarlierFile) {
  Write(5, 0);
  Flip(1, 4 * 4096 + 81);
  EXPECT_TRUE(absl::IsDataLoss(Recover().status()));
}

TEST_F(LogRecoveryTest, RefusesAFileWhoseHeaderIsDamaged) {
  Write(5, 0);
  Flip(2, 25);
  const absl::Status refused = Recover().status();
  EXPECT_TRUE(absl::IsDataLoss(refused));
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("0000000002.log"));
}

TEST_F(LogRecoveryTest, RefusesAMissingFile) {
  Write(9, 9);
  ASSERT_TRUE(fs_.Remove(LogFileName(2)).ok());
  EXPECT_TRUE(absl::IsDataLoss(Recover().status()));
}

TEST_F(LogRecoveryTest, DropsAFileThatWasNeverFinished) {
  Write(4, 4);
  ASSERT_TRUE((*fs_.Create(LogFileName(2)))->Preallocate(5 * 4096).ok());
  const auto recovered = Recover();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->frames.size(), 4u);
  EXPECT_EQ(recovered->start.next_file, 3);
  EXPECT_THAT(*fs_.List(""), testing::ElementsAre(LogFileName(1)));
}

TEST_F(LogRecoveryTest, DoesNotTakeAnotherLogsFrames) {
  Write(3, 3);
  const auto recovered = RecoverLog(fs_, "", {.salt = kOptions.salt + 1});
  ASSERT_TRUE(recovered.ok());
  EXPECT_TRUE(recovered->frames.empty());
}

}  // namespace
}  // namespace longhaul
