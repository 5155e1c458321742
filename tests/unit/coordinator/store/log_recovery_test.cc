#include "coordinator/store/log_recovery.h"

#include <memory>
#include <string>

#include "common/io/file_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

constexpr LogFileOptions kLogOptions = {.file_bytes = 6 * 4096,
                                        // Four frames of one block.
                                        .salt = 9};

class LogRecoveryTest : public testing::Test {
 protected:
  // Appends `frames` frames, and syncs after the first `synced`.
  void Write(int frames, int synced) {
    Log log(&fs_, "", kLogOptions, LogStart());
    for (int i = 0; i < frames; ++i) {
      ASSERT_TRUE(log.Append(FrameType::kPart, "body " + std::to_string(i), {}).ok());
      if (i + 1 == synced) {
        ASSERT_TRUE(log.Sync().ok());
      }
    }
  }
  void Flip(int64_t number, int64_t offset) { Flip(fs_, number, offset); }
  static void Flip(FileSystem& fs, int64_t number, int64_t offset) {
    auto file = *fs.Open(LogFileName(number));
    char byte = 0;
    ASSERT_TRUE(file->ReadExactly(offset, {&byte, 1}).ok());
    byte ^= 1;
    ASSERT_TRUE(file->WriteAt(offset, {&byte, 1}).ok());
  }
  absl::StatusOr<ScannedLog> Recover(uint64_t durable_upto = 0) {
    return RecoverLog(fs_, "", {.salt = kLogOptions.salt, .durable_upto = durable_upto});
  }

  MemoryFileSystem fs_;
};

TEST_F(LogRecoveryTest, AnEmptyLogBeginsAtOne) {
  ASSERT_TRUE(MakeLogFile(fs_, "", 1, kLogOptions.file_bytes, kLogOptions.salt).ok());
  const auto log = Recover();
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->start.next_sequence, 1u);
  EXPECT_EQ(log->start.next_file, 2);
}

TEST_F(LogRecoveryTest, ALogHasAFile) { EXPECT_TRUE(absl::IsDataLoss(Recover().status())); }

TEST_F(LogRecoveryTest, RefusesAFileThatIsNotOfTheLog) {
  Write(3, 3);
  ASSERT_TRUE((*fs_.Create("/segment-zzz.log"))->WriteAt(0, "garbage").ok());
  EXPECT_THAT(std::string(Recover().status().message()), testing::HasSubstr("segment-zzz.log"));
}

TEST_F(LogRecoveryTest, RefusesTheFilesOfAnotherFormat) {
  Write(3, 3);
  ASSERT_TRUE((*fs_.Open(LogFileName(1)))->WriteAt(7, "1").ok());
  const absl::Status refused = Recover().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::HasSubstr("0000000001.log"), testing::HasSubstr("LHLOGFI1")));
}

// Anything that is cut off a file is noticed, except space that no frame took.
TEST_F(LogRecoveryTest, RefusesAFileThatWasCutOff) {
  // Four frames in the first file, two in the second, which is half full.
  Write(6, 6);
  for (const int64_t size : {int64_t{0}, int64_t{40}, int64_t{4096}, int64_t{3 * 4096 + 100},
                             int64_t{4 * 4096}, int64_t{6 * 4096 - 1}}) {
    const auto copy = fs_.CrashCopy(UnsyncedFate::kKept);
    ASSERT_TRUE((*copy->Open(LogFileName(2)))->Truncate(size).ok());
    const absl::Status refused = RecoverLog(*copy, "", {.salt = kLogOptions.salt}).status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << size;
    EXPECT_THAT(std::string(refused.message()), testing::AllOf(testing::HasSubstr("0000000002.log"),
                                                               testing::HasSubstr("at byte")));
  }
}

TEST_F(LogRecoveryTest, RefusesALostLastFile) {
  {
    Log log(&fs_, "", {.file_bytes = 6 * 4096 + 100, .salt = 9}, LogStart());
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(log.Append(FrameType::kPart, "x", {}).ok());
    ASSERT_TRUE(log.Sync().ok());
    // Cuts off the unused end of the first file.
    ASSERT_TRUE(log.RemoveBefore(0).ok());
  }
  ASSERT_TRUE(fs_.Remove(LogFileName(2)).ok());
  EXPECT_TRUE(absl::IsDataLoss(Recover().status()));
}

TEST_F(LogRecoveryTest, ReadingChangesNothing) {
  Write(4, 2);
  Flip(1, 3 * 4096 + 81);
  ASSERT_TRUE(fs_.Create("0000000009.log.tmp").ok());
  const auto names = *fs_.List("");
  for (int i = 0; i < 2; ++i) {
    const auto scanned = ScanLog(fs_, "", {.salt = kLogOptions.salt, .read_only = true});
    ASSERT_TRUE(scanned.ok()) << scanned.status();
    EXPECT_EQ(scanned->frames.size(), 2u);
    EXPECT_EQ(scanned->leftovers.size(), 1u);
    EXPECT_EQ(*fs_.List(""), names);
  }
}

TEST_F(LogRecoveryTest, FindsEveryFrameAndContinues) {
  Write(6, 6);
  auto recovered = Recover();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  ASSERT_EQ(recovered->frames.size(), 6u);
  EXPECT_EQ(recovered->frames[4].body.file, 2);
  EXPECT_EQ(recovered->torn_bytes, 0);
  EXPECT_EQ(recovered->start.next_sequence, 7u);
  Log log(&fs_, "", kLogOptions, std::move(recovered->start));
  EXPECT_EQ(log.Append(FrameType::kPart, "more", {})->sequence, 7u);
  EXPECT_EQ(Recover()->frames.size(), 7u);
}

TEST_F(LogRecoveryTest, ContinuesAfterATornTail) {
  Write(4, 2);
  // The body of the third frame. Nothing shows that it was durable.
  Flip(1, 3 * 4096 + 81);
  auto recovered = Recover();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->frames.size(), 2u);
  EXPECT_GT(recovered->torn_bytes, 0);
  Log log(&fs_, "", kLogOptions, std::move(recovered->start));
  EXPECT_EQ(log.Append(FrameType::kPart, "more", {})->body.file, 2);
  EXPECT_EQ(Recover()->frames.size(), 3u);
  EXPECT_EQ(Recover()->torn_bytes, 0);
  ASSERT_TRUE(log.Sync().ok());
  ASSERT_TRUE(log.RemoveBefore(0).ok());
  EXPECT_EQ(*(*fs_.Open(LogFileName(1)))->Size(), 3 * 4096);
  EXPECT_EQ(Recover()->frames.size(), 3u);
}

// The fourth frame is whole and comes after the torn third. That alone is not damage.
TEST_F(LogRecoveryTest, AWholeFrameAfterATornOneIsNotDamage) {
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
              testing::AllOf(testing::HasSubstr("0000000001.log"), testing::HasSubstr("byte 12288"),
                             testing::HasSubstr("frame 3")));
}

TEST_F(LogRecoveryTest, RefusesDamageBelowASnapshotsMark) {
  Write(4, 0);
  Flip(1, 3 * 4096 + 81);
  EXPECT_TRUE(absl::IsDataLoss(Recover(4).status()));
  EXPECT_TRUE(Recover(3).ok());
}

TEST_F(LogRecoveryTest, RefusesDamageInAnEarlierFile) {
  Write(6, 5);
  Flip(1, 4 * 4096 + 81);
  EXPECT_TRUE(absl::IsDataLoss(Recover().status()));
}

// The first file has four frames, the second one the others.
TEST_F(LogRecoveryTest, LeavesOutADamagedPartThatWasDurable) {
  const LogScanOptions options = {.salt = kLogOptions.salt, .leave_out_parts = true};
  Write(8, 6);
  for (const int frame : {1, 3, 4, 5}) {
    SCOPED_TRACE(frame);
    const auto fs = fs_.CrashCopy(UnsyncedFate::kKept);
    const int64_t number = frame <= 4 ? 1 : 2;
    Flip(*fs, number, (frame <= 4 ? frame : frame - 4) * 4096 + 81);
    auto recovered = RecoverLog(*fs, "", options);
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    EXPECT_EQ(recovered->frames.size(), 7u);
    EXPECT_EQ(recovered->torn_bytes, 0);
    ASSERT_EQ(recovered->damaged.size(), 1u);
    EXPECT_EQ(recovered->damaged[0].sequence, static_cast<uint64_t>(frame));
    EXPECT_THAT(std::string(recovered->damaged[0].status.message()),
                testing::HasSubstr(LogFileName(number)));
    EXPECT_EQ(recovered->start.next_sequence, 9u);
    Log log(fs.get(), "", kLogOptions, std::move(recovered->start));
    EXPECT_EQ(log.Append(FrameType::kPart, "more", {})->sequence, 9u);
    EXPECT_EQ(log.Frames(1, 10)->size(), 9u) << "their headers are whole";
    EXPECT_EQ(RecoverLog(*fs, "", options)->frames.size(), 8u);
  }
}

TEST_F(LogRecoveryTest, LeavesOutSeveralDamagedParts) {
  Write(8, 7);
  for (const int64_t offset : {2, 3, 4}) Flip(1, offset * 4096 + 81);
  Flip(2, 4096 + 81);
  const auto recovered = RecoverLog(fs_, "", {.salt = kLogOptions.salt, .leave_out_parts = true});
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->frames.size(), 4u);
  EXPECT_EQ(recovered->damaged.size(), 4u);
}

// What may be a torn end stays one: a part that was never durable, and what came after it.
TEST_F(LogRecoveryTest, DoesNotLeaveOutWhatMayBeTorn) {
  Write(4, 2);
  Flip(1, 3 * 4096 + 81);
  const auto recovered = RecoverLog(fs_, "", {.salt = kLogOptions.salt, .leave_out_parts = true});
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->frames.size(), 2u);
  EXPECT_TRUE(recovered->damaged.empty());
  EXPECT_GT(recovered->torn_bytes, 0);
}

// Nobody knows where the next frame begins, or a version would be missing.
TEST_F(LogRecoveryTest, LeavesOutNoDamagedHeaderAndNoOtherFrame) {
  const LogScanOptions options = {.salt = kLogOptions.salt, .leave_out_parts = true};
  Write(4, 3);
  Flip(1, 3 * 4096 + 10);
  EXPECT_TRUE(absl::IsDataLoss(RecoverLog(fs_, "", options).status()));
  for (const FrameType type : {FrameType::kDownlink, FrameType::kCommit}) {
    MemoryFileSystem fs;
    Log log(&fs, "", kLogOptions, LogStart());
    ASSERT_TRUE(log.Append(type, "body", {}).ok());
    ASSERT_TRUE(log.Sync().ok());
    ASSERT_TRUE(log.Append(FrameType::kPart, "body", {}).ok());
    Flip(fs, 1, 4096 + 81);
    EXPECT_TRUE(absl::IsDataLoss(RecoverLog(fs, "", options).status()));
  }
}

TEST_F(LogRecoveryTest, RefusesAFileWhoseHeaderIsDamaged) {
  Write(5, 0);
  Flip(2, 25);
  const absl::Status refused = Recover().status();
  EXPECT_TRUE(absl::IsDataLoss(refused));
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::HasSubstr("0000000002.log"), testing::HasSubstr("at byte")));
}

TEST_F(LogRecoveryTest, RefusesAMissingFile) {
  Write(9, 9);
  ASSERT_TRUE(fs_.Remove(LogFileName(2)).ok());
  EXPECT_TRUE(absl::IsDataLoss(Recover().status()));
}

TEST_F(LogRecoveryTest, DropsAFileThatWasNeverFinished) {
  Write(1, 1);
  ASSERT_TRUE((*fs_.Create(LogFileName(2) + ".tmp"))->Preallocate(5 * 4096).ok());
  const auto recovered = Recover();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->frames.size(), 1u);
  EXPECT_EQ(recovered->start.next_file, 2);
  EXPECT_THAT(*fs_.List(""), testing::ElementsAre(LogFileName(1)));
}

// Frames of two files were being written, and those of the first were lost.
TEST_F(LogRecoveryTest, DropsFilesAfterATornOne) {
  {
    Log log(&fs_, "", kLogOptions, LogStart());
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(log.Append(FrameType::kPart, "x", {}).ok());
    auto reservation = log.Reserve(4096);
    EXPECT_EQ(log.Append(FrameType::kCommit, "x", {}, &*reservation)->body.file, 2);
  }
  Flip(1, 4 * 4096 + 80);
  const auto recovered = Recover();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->frames.size(), 3u);
  EXPECT_THAT(*fs_.List(""), testing::ElementsAre(LogFileName(1)));
  EXPECT_EQ(recovered->start.next_file, 2);
}

TEST_F(LogRecoveryTest, DoesNotTakeAnotherLogsFrames) {
  Write(3, 3);
  const auto recovered = RecoverLog(fs_, "", {.salt = kLogOptions.salt + 1});
  EXPECT_TRUE(absl::IsDataLoss(recovered.status()));
}

}  // namespace
}  // namespace longhaul
