#include "coordinator/store/log.h"

#include <string>
#include <thread>
#include <vector>

#include "coordinator/store/fatal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

constexpr LogFileOptions kOptions = {.file_bytes = 6 * 4096,
                                     // Four frames of one block.
                                     .salt = 9};

class LogTest : public testing::Test {
 protected:
  std::vector<uint8_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }
  absl::StatusOr<AppendedFrame> Append(const std::string& meta, const std::string& payload = "") {
    return log_.Append(FrameType::kPart, meta, {Bytes(payload)});
  }
  std::vector<std::string> LogFiles() { return *memory_.List(""); }

  MemoryFileSystem memory_;
  FailingFileSystem fs_{&memory_};
  Log log_{&fs_, "", kOptions, LogStart()};
};

TEST_F(LogTest, ReadsBackWhatWasAppended) {
  const auto first = Append("meta", "payload");
  ASSERT_TRUE(first.ok());
  const auto second = Append("x");
  EXPECT_EQ(first->sequence, 1u);
  EXPECT_EQ(second->sequence, 2u);
  EXPECT_EQ(first->body_digest, DigestOf("metapayload"));
  std::vector<uint8_t> out(11);
  ASSERT_TRUE(log_.Read(first->body, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, Bytes("metapayload"));
}

TEST_F(LogTest, JoinsThePiecesOfAPayload) {
  const std::vector<uint8_t> a = Bytes("one "), b = Bytes("two");
  const auto frame = log_.Append(FrameType::kPart, "of ", {a, {}, b});
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->body_digest, DigestOf("of one two"));
  std::vector<uint8_t> out(10);
  ASSERT_TRUE(log_.Read(frame->body, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, Bytes("of one two"));
}

TEST_F(LogTest, RollsToNewFilesAndMakesLargeOnes) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Append("x").ok());
  EXPECT_EQ(LogFiles().size(), 2u);
  const std::string large(100000, 'y');
  const auto frame = Append("z", large);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->body.file, 3);
  std::vector<uint8_t> out(large.size());
  ASSERT_TRUE(log_.Read({frame->body.file, frame->body.offset + 1}, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, Bytes(large));
}

TEST_F(LogTest, ReservedSpaceIsThere) {
  // The disk has space only for the first file.
  ASSERT_TRUE(Append("x").ok());
  fs_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kCreate ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
  });
  auto reservation = log_.Reserve(2 * 4096);
  ASSERT_TRUE(reservation.ok());
  // The last one that fits beside the reservation.
  ASSERT_TRUE(Append("x").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Append("x").status()));
  EXPECT_TRUE(log_.Append(FrameType::kCommit, "a", {}, &*reservation).ok());
  EXPECT_TRUE(log_.Append(FrameType::kCommit, "b", {}, &*reservation).ok());
  EXPECT_TRUE(log_.Sync().ok());
  fs_.SetDecision(nullptr);
  EXPECT_EQ(Append("x")->sequence, 5u);
}

TEST_F(LogTest, ReservationsMoveToTheNewFile) {
  ASSERT_TRUE(Append("x").ok());
  auto reservation = log_.Reserve(3 * 4096);
  EXPECT_EQ(Append("x")->body.file, 2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(log_.Append(FrameType::kCommit, "a", {}, &*reservation)->body.file, 2);
  }
}

TEST_F(LogTest, TheNextFileIsMadeAheadWhenHalfIsUsed) {
  ASSERT_TRUE(Append("x").ok());
  EXPECT_EQ(LogFiles().size(), 1u);
  ASSERT_TRUE(Append("x").ok());
  EXPECT_EQ(LogFiles().size(), 2u);
  ASSERT_TRUE(Append("x").ok());
  ASSERT_TRUE(Append("x").ok());
  // A round that changes the file writes only its frame.
  const int64_t operations = fs_.operations();
  auto reservation = log_.Reserve(4096);
  EXPECT_EQ(log_.Append(FrameType::kCommit, "a", {}, &*reservation)->body.file, 2);
  EXPECT_EQ(fs_.operations(), operations + 1);
}

// A round does not make files, since others wait for it.
TEST_F(LogTest, AReservedFrameMakesNoFileAhead) {
  auto reservation = log_.Reserve(3 * 4096);
  ASSERT_TRUE(log_.Append(FrameType::kCommit, "a", {}, &*reservation).ok());
  ASSERT_TRUE(log_.Append(FrameType::kCommit, "a", {}, &*reservation).ok());
  EXPECT_EQ(LogFiles().size(), 1u);
}

TEST_F(LogTest, AFileThatCannotBeMadeAheadIsMadeLater) {
  ASSERT_TRUE(Append("x").ok());
  fs_.SetDecision([](int64_t, FileOp op) {
    return op == FileOp::kCreate ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
  });
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Append("x").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Append("x").status()));
  EXPECT_EQ(LogFiles().size(), 1u);
  fs_.SetDecision(nullptr);
  EXPECT_EQ(Append("x")->body.file, 2);
}

// Frames of a file that was left are durable only after a sync of that file.
TEST_F(LogTest, ASyncCoversTheFilesThatWereLeft) {
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(Append("x").ok());
  ASSERT_TRUE(log_.Sync().ok());
  const auto recovered = RecoverLog(*memory_.CrashCopy(UnsyncedFate::kDropped), "", {.salt = 9});
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->frames.size(), 9u);
}

TEST_F(LogTest, FramesAreFoundAgain) {
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(Append("meta" + std::to_string(i)).ok());
  const auto frames = *log_.Frames(3, 8);
  ASSERT_EQ(frames.size(), 5u);
  for (size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].sequence, 3 + i);
    EXPECT_EQ(frames[i].body_digest, DigestOf("meta" + std::to_string(2 + i)));
  }
  EXPECT_TRUE(log_.Frames(100, 200)->empty());
}

TEST_F(LogTest, PinnedFramesStay) {
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(Append("x").ok());
  ASSERT_TRUE(log_.Sync().ok());
  {
    const Log::Pin pin = log_.PinFrom(6);
    ASSERT_TRUE(log_.RemoveBefore(12).ok());
    EXPECT_EQ(LogFiles().front(), LogFileName(2));
    EXPECT_EQ(log_.Frames(6, 13)->size(), 7u);
  }
  ASSERT_TRUE(log_.RemoveBefore(12).ok());
  EXPECT_EQ(LogFiles().front(), LogFileName(3));
}

TEST_F(LogTest, GivesBackSpaceThatNobodyNeeds) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Append("x").ok());
  EXPECT_EQ(LogFiles().size(), 2u);
  ASSERT_TRUE(log_.GiveBack().ok());
  ASSERT_TRUE(log_.GiveBack().ok());
  EXPECT_EQ(LogFiles().size(), 1u);
  EXPECT_EQ(*(*memory_.Open(LogFileName(1)))->Size(), 4 * 4096);
  EXPECT_EQ(RecoverLog(*memory_.CrashCopy(UnsyncedFate::kDropped), "", {.salt = 9})->frames.size(),
            3u);
  EXPECT_EQ(Append("x")->body.file, 2);
  ASSERT_TRUE(log_.Sync().ok());
  EXPECT_EQ(RecoverLog(*memory_.CrashCopy(UnsyncedFate::kDropped), "", {.salt = 9})->frames.size(),
            4u);
}

TEST_F(LogTest, GivesBackReservationsThatWereNotUsed) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(log_.Reserve(4 * 4096).ok());
  EXPECT_EQ(LogFiles().size(), 1u);
}

TEST_F(LogTest, AFullDiskLeavesTheLogAsItWas) {
  ASSERT_TRUE(Append("x").ok());
  fs_.FailOnce(fs_.operations(), absl::ResourceExhaustedError("no space"));
  EXPECT_TRUE(absl::IsResourceExhausted(Append("meta", std::string(9000, 'p')).status()));
  const auto next = Append("y");
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->sequence, 2u);
  ASSERT_TRUE(log_.Sync().ok());
  const auto recovered = RecoverLog(memory_, "", {.salt = 9});
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered->frames.size(), 2u);
}

TEST_F(LogTest, AFailedSyncIsFinal) {
  ASSERT_TRUE(Append("x").ok());
  fs_.FailOnce(fs_.operations(), absl::ResourceExhaustedError("no space, said too late"));
  const absl::Status failed = log_.Sync();
  EXPECT_TRUE(IsFatal(failed));
  EXPECT_EQ(log_.Sync(), failed);
  EXPECT_EQ(Append("x").status(), failed);
  EXPECT_EQ(log_.Reserve(1).status(), failed);
  EXPECT_EQ(log_.status(), failed);
}

// UNAVAILABLE: no file descriptor was left to try it with.
TEST_F(LogTest, AFolderSyncThatWasNotTriedLeavesTheLogAsItWas) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Append("x").ok());
  const auto none_left = [](int64_t, FileOp op) {
    return op == FileOp::kSyncDir ? absl::UnavailableError("too many open files")
                                  : absl::OkStatus();
  };
  fs_.SetDecision(none_left);
  ASSERT_TRUE(Append("x").ok()) << "the file was made ahead";
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Append("x").ok());
  EXPECT_TRUE(absl::IsUnavailable(Append("x").status()));
  fs_.SetDecision(nullptr);
  EXPECT_EQ(Append("x")->body.file, 3);
  ASSERT_TRUE(log_.Sync().ok());
  fs_.SetDecision(none_left);
  EXPECT_TRUE(absl::IsUnavailable(log_.RemoveBefore(1000)));
  fs_.SetDecision(nullptr);
  ASSERT_TRUE(log_.RemoveBefore(1000).ok());
  EXPECT_THAT(LogFiles(), testing::ElementsAre("0000000003.log"));
  ASSERT_TRUE(Append("x").ok());
  fs_.SetDecision(none_left);
  EXPECT_TRUE(absl::IsUnavailable(log_.GiveBack())) << "the next file was made ahead";
  fs_.SetDecision(nullptr);
  ASSERT_TRUE(log_.GiveBack().ok());
  EXPECT_EQ(Append("x")->body.file, 4);
  ASSERT_TRUE(log_.Sync().ok());
  EXPECT_EQ(RecoverLog(*memory_.CrashCopy(UnsyncedFate::kDropped), "", {.salt = 9})->frames.size(),
            3u);
}

TEST_F(LogTest, SyncsOnlyWhatIsNew) {
  ASSERT_TRUE(Append("x").ok());
  ASSERT_TRUE(log_.Sync().ok());
  const int64_t operations = fs_.operations();
  ASSERT_TRUE(log_.Sync().ok());
  EXPECT_EQ(fs_.operations(), operations);
}

TEST_F(LogTest, RemovesOldFilesButNeverTheCurrentOne) {
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(Append("x").ok());
  ASSERT_TRUE(log_.RemoveBefore(1000).ok());
  // After a crash nothing shows yet that the log continues in the third file.
  EXPECT_THAT(LogFiles(), testing::ElementsAre("0000000002.log", "0000000003.log"));
  ASSERT_TRUE(log_.Sync().ok());
  ASSERT_TRUE(log_.RemoveBefore(8).ok());
  EXPECT_THAT(LogFiles(), testing::ElementsAre("0000000002.log", "0000000003.log"));
  ASSERT_TRUE(log_.RemoveBefore(1000).ok());
  EXPECT_THAT(LogFiles(), testing::ElementsAre("0000000003.log"));
}

TEST_F(LogTest, ThreadsGetTheirOwnFrames) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = std::to_string(t * 1000 + i);
        const auto frame = Append("", text);
        ASSERT_TRUE(frame.ok());
        ASSERT_TRUE(log_.Sync().ok());
        std::vector<uint8_t> out(text.size());
        ASSERT_TRUE(log_.Read(frame->body, absl::MakeSpan(out)).ok());
        ASSERT_EQ(out, Bytes(text));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto recovered = RecoverLog(*memory_.CrashCopy(UnsyncedFate::kDropped), "", {.salt = 9});
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered->frames.size(), 200u);
}

}  // namespace
}  // namespace longhaul
