// Large files are written in steps that a commit's sync can wait for.
#include "coordinator/store/paced_write.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/io/memory_filesystem.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/snapshot.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

// Knows the most bytes of a file that were written and not synced at any time.
class CountingFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override {
    return Wrap(memory_.Open(path));
  }
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    return Wrap(memory_.Create(path));
  }
  absl::Status CreateDir(const std::string& path) override { return memory_.CreateDir(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return memory_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return memory_.Remove(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return memory_.List(path);
  }
  absl::Status SyncDir(const std::string& path) override { return memory_.SyncDir(path); }

  int64_t most_unsynced() const { return most_unsynced_; }

 private:
  class CountingFile : public File {
   public:
    CountingFile(std::unique_ptr<File> base, int64_t* most) : base_(std::move(base)), most_(most) {}
    absl::StatusOr<int64_t> ReadAt(int64_t offset, absl::Span<char> out) const override {
      return base_->ReadAt(offset, out);
    }
    absl::Status WriteAt(int64_t offset, absl::string_view data) override {
      unsynced_ += static_cast<int64_t>(data.size());
      *most_ = std::max(*most_, unsynced_);
      return base_->WriteAt(offset, data);
    }
    absl::Status SyncData() override {
      unsynced_ = 0;
      return base_->SyncData();
    }
    absl::Status Preallocate(int64_t size) override { return base_->Preallocate(size); }
    absl::Status Truncate(int64_t size) override { return base_->Truncate(size); }
    absl::StatusOr<int64_t> Size() const override { return base_->Size(); }
    void DropCache() override { base_->DropCache(); }

   private:
    const std::unique_ptr<File> base_;
    int64_t* const most_;
    int64_t unsynced_ = 0;
  };
  absl::StatusOr<std::unique_ptr<File>> Wrap(absl::StatusOr<std::unique_ptr<File>> file) {
    if (!file.ok()) return file.status();
    return std::make_unique<CountingFile>(*std::move(file), &most_unsynced_);
  }

  MemoryFileSystem memory_;
  int64_t most_unsynced_ = 0;
};

constexpr int64_t kElements = 5'000'001;

TEST(PacedWriteTest, BytesAreWhereTheyBelong) {
  CountingFileSystem fs;
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
  CountingFileSystem fs;
  ASSERT_TRUE(fs.CreateDir("j").ok());
  ASSERT_TRUE(fs.CreateDir("j/checkpoints").ok());
  auto writer = CheckpointWriter::Begin(&fs, "j", {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->AddFragment(1, {}, std::vector<float>(kElements)).ok());
  EXPECT_LE(fs.most_unsynced(), kPacedStepBytes);
}

TEST(PacedWriteTest, ASnapshotIsWrittenInSteps) {
  CountingFileSystem fs;
  ASSERT_TRUE(WriteSnapshot(fs, "", 0, FragmentState(kElements)).ok());
  EXPECT_LE(fs.most_unsynced(), kPacedStepBytes);
}

}  // namespace
}  // namespace longhaul
