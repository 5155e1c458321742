#include "tests/testing/failing_filesystem.h"

#include <utility>

#include "common/base/status_macros.h"

namespace longhaul {

class FailingFileSystem::FailingFile : public DelegatingFile {
 public:
  FailingFile(FailingFileSystem* owner, std::unique_ptr<File> base)
      : DelegatingFile(std::move(base)), owner_(owner) {}

  absl::Status WriteAt(int64_t offset, absl::string_view data) override {
    absl::Status decided = owner_->Count(FileOp::kWrite);
    if (decided.ok()) return DelegatingFile::WriteAt(offset, data);
    // After CANCELLED the process is gone and writes nothing.
    if (!absl::IsCancelled(decided)) {
      LH_RETURN_IF_ERROR(DelegatingFile::WriteAt(offset, data.substr(0, data.size() / 2)));
    }
    return decided;
  }
  absl::Status SyncData() override {
    LH_RETURN_IF_ERROR(owner_->Count(FileOp::kSync));
    return DelegatingFile::SyncData();
  }
  absl::Status Preallocate(int64_t size) override {
    LH_RETURN_IF_ERROR(owner_->Count(FileOp::kPreallocate));
    return DelegatingFile::Preallocate(size);
  }
  absl::Status Truncate(int64_t size) override {
    LH_RETURN_IF_ERROR(owner_->Count(FileOp::kTruncate));
    return DelegatingFile::Truncate(size);
  }

 private:
  FailingFileSystem* const owner_;
};

void FailingFileSystem::SetDecision(Decision decision) {
  absl::MutexLock lock(&mutex_);
  decision_ = std::move(decision);
}

void FailingFileSystem::FailOnce(int64_t index, const absl::Status& error) {
  SetDecision([=](int64_t i, FileOp) { return i == index ? error : absl::OkStatus(); });
}

void FailingFileSystem::FailFrom(int64_t index, const absl::Status& error) {
  SetDecision([=](int64_t i, FileOp) { return i >= index ? error : absl::OkStatus(); });
}

int64_t FailingFileSystem::operations() const {
  absl::MutexLock lock(&mutex_);
  return operations_;
}

absl::Status FailingFileSystem::Count(FileOp op) {
  absl::MutexLock lock(&mutex_);
  const int64_t index = operations_++;
  return decision_ ? decision_(index, op) : absl::OkStatus();
}

std::unique_ptr<File> FailingFileSystem::Wrap(std::unique_ptr<File> file) {
  return std::make_unique<FailingFile>(this, std::move(file));
}

absl::StatusOr<std::unique_ptr<File>> FailingFileSystem::Create(const std::string& path) {
  LH_RETURN_IF_ERROR(Count(FileOp::kCreate));
  return DelegatingFileSystem::Create(path);
}

absl::Status FailingFileSystem::CreateDir(const std::string& path) {
  LH_RETURN_IF_ERROR(Count(FileOp::kCreateDir));
  return DelegatingFileSystem::CreateDir(path);
}

absl::Status FailingFileSystem::Rename(const std::string& from, const std::string& to) {
  LH_RETURN_IF_ERROR(Count(FileOp::kRename));
  return DelegatingFileSystem::Rename(from, to);
}

absl::Status FailingFileSystem::Remove(const std::string& path) {
  LH_RETURN_IF_ERROR(Count(FileOp::kRemove));
  return DelegatingFileSystem::Remove(path);
}

absl::Status FailingFileSystem::SyncDir(const std::string& path) {
  LH_RETURN_IF_ERROR(Count(FileOp::kSyncDir));
  return DelegatingFileSystem::SyncDir(path);
}

}  // namespace longhaul
