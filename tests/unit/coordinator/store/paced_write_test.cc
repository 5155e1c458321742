// Large files are written in steps that are short enough for a commit's sync to wait.
#include "coordinator/store/paced_write.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/store/checkpoint.h"
#include "coordinator/store/snapshot.h"
#include "gtest/gtest.h"
#include "tests/testing/delegating_filesystem.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

// Counts the most bytes of a file that were written and not synced at any time.
class CountingFileSystem : public DelegatingFileSystem {
 public:
  using DelegatingFileSystem::DelegatingFileSystem;
  int64_t most_unsynced() const { return most_unsynced_; }

 protected:
  std::unique_ptr<File> Wrap(std::unique_ptr<File> file) override {
    return std::make_unique<CountingFile>(std::move(file), &most_unsynced_);
  }

 private:
  class CountingFile : public DelegatingFile {
   public:
    CountingFile(std::unique_ptr<File> base, int64_t* most)
        : DelegatingFile(std::move(base)), most_(most) {}
    absl::Status WriteAt(int64_t offset, absl::string_view data) override {
      unsynced_ += static_cast<int64_t>(data.size());
      *most_ = std::max(*most_, unsynced_);
      return DelegatingFile::WriteAt(offset, data);
    }
    absl::Status SyncData() override {
      unsynced_ = 0;
      return DelegatingFile::SyncData();
    }

   private:
    int64_t* const most_;
    int64_t unsynced_ = 0;
  };

  int64_t most_unsynced_ = 0;
};

constexpr int64_t kBigFragment = 5'000'001;

TEST(PacedWriteTest, BytesAreWhereTheyBelong) {
  MemoryFileSystem memory;
  CountingFileSystem fs(&memory);
  const std::unique_ptr<File> file = *fs.Create("f");
  std::string bytes(2 * kPacedStepBytes + 5, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 3);
  ASSERT_TRUE(WritePaced(*file, 7, bytes).ok());
  std::string read(bytes.size(), '\0');
  ASSERT_TRUE(file->ReadExactly(7, absl::MakeSpan(read)).ok());
  EXPECT_EQ(read, bytes);
  EXPECT_EQ(fs.most_unsynced(), kPacedStepBytes);
}

TEST(PacedWriteTest, ACheckpointIsWrittenInSteps) {
  MemoryFileSystem memory;
  CountingFileSystem fs(&memory);
  ASSERT_TRUE(fs.CreateDir("j").ok());
  ASSERT_TRUE(fs.CreateDir("j/checkpoints").ok());
  auto writer = CheckpointWriter::Begin(&fs, "j", {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->AddFragment(1, {}, std::vector<float>(kBigFragment)).ok());
  EXPECT_LE(fs.most_unsynced(), kPacedStepBytes);
}

TEST(PacedWriteTest, ASnapshotIsWrittenInSteps) {
  MemoryFileSystem memory;
  CountingFileSystem fs(&memory);
  ASSERT_TRUE(WriteSnapshot(fs, "", 0, FragmentState(kBigFragment)).ok());
  EXPECT_LE(fs.most_unsynced(), kPacedStepBytes);
}

}  // namespace
}  // namespace longhaul
