#include "common/io/slow_operations.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/delegating_filesystem.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A disk on which syncs of files wait.
class HangingFileSystem : public DelegatingFileSystem {
 public:
  using DelegatingFileSystem::DelegatingFileSystem;
  absl::Notification begun, go;

 protected:
  std::unique_ptr<File> Wrap(std::unique_ptr<File> file) override {
    return std::make_unique<HangingFile>(std::move(file), this);
  }

 private:
  class HangingFile : public DelegatingFile {
   public:
    HangingFile(std::unique_ptr<File> base, HangingFileSystem* of)
        : DelegatingFile(std::move(base)), of_(of) {}
    absl::Status SyncData() override {
      of_->begun.Notify();
      of_->go.WaitForNotification();
      return DelegatingFile::SyncData();
    }

   private:
    HangingFileSystem* const of_;
  };
};

class SlowOperationsTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  std::vector<std::string> told_;
  SlowOperations operations_{{.tell = [this](const std::string& line) { told_.push_back(line); },
                              .now = [this] { return clock_.Now(); }}};
};

TEST_F(SlowOperationsTest, AnOperationThatDoesNotReturnIsNamedWithItsFile) {
  MemoryFileSystem disk;
  HangingFileSystem hangs(&disk);
  const std::unique_ptr<FileSystem> watched = MakeWatchedFileSystem(&hangs, &operations_);
  ASSERT_TRUE(watched->CreateDir("data").ok());
  absl::StatusOr<std::unique_ptr<File>> file = watched->Create("data/a.log");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->WriteAt(0, "abc").ok());
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(operations_.OldestBelow("data"), "");
  std::thread writer([&] { EXPECT_TRUE((*file)->SyncData().ok()); });
  hangs.begun.WaitForNotification();
  clock_.Advance(absl::Seconds(9));
  operations_.Look();
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_EQ(operations_.Longest(), absl::ZeroDuration());
  EXPECT_EQ(operations_.OldestBelow("data"), "");
  clock_.Advance(absl::Seconds(3));
  operations_.Look();
  operations_.Look();
  EXPECT_THAT(told_, ElementsAre("sync of data/a.log has not returned for 12s: its disk hangs"));
  EXPECT_EQ(operations_.Longest(), absl::Seconds(12));
  EXPECT_EQ(operations_.OldestBelow("data"), "sync of data/a.log has not returned for 12s");
  EXPECT_EQ(operations_.OldestBelow("data/a.log"), "sync of data/a.log has not returned for 12s");
  for (const char* other : {"dat", "data/a", "data/b.log", "other"})
    EXPECT_EQ(operations_.OldestBelow(other), "") << other;
  clock_.Advance(absl::Seconds(8));
  hangs.go.Notify();
  writer.join();
  EXPECT_EQ(told_.back(), "sync of data/a.log has returned after 20s");
  EXPECT_EQ(operations_.OldestBelow("data", absl::ZeroDuration()), "");
}

TEST_F(SlowOperationsTest, TheOldestOneThatIsWantedIsNamed) {
  using Operation = SlowOperations::Operation;
  auto first = std::make_unique<Operation>(&operations_, "write", "a/1");
  clock_.Advance(absl::Seconds(1));
  auto second = std::make_unique<Operation>(&operations_, "sync", "b/2");
  clock_.Advance(absl::Seconds(1));
  auto third = std::make_unique<Operation>(&operations_, "read", "a/3");
  const Operation nobody(nullptr, "read", "a/4");
  clock_.Advance(absl::Seconds(20));
  EXPECT_EQ(operations_.OldestBelow("a"), "write of a/1 has not returned for 22s");
  EXPECT_EQ(operations_.OldestBelow("b"), "sync of b/2 has not returned for 21s");
  second.reset();
  EXPECT_EQ(operations_.OldestBelow("b"), "");
  first.reset();
  EXPECT_EQ(operations_.OldestBelow("a"), "read of a/3 has not returned for 20s");
  third.reset();
  EXPECT_EQ(operations_.Longest(), absl::ZeroDuration());
}

}  // namespace
}  // namespace longhaul
