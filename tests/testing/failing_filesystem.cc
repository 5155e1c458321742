#include "tests/testing/failing_filesystem.h"

#include <utility>

#include "common/base/status_macros.h"

namespace longhaul {

class FailingFileSystem::FailingFile : public File {
 public:
  FailingFile(FailingFileSystem* owner, std::unique_ptr<File> base)
      : owner_(owner), base_(std::move(base)) {}

  absl::StatusOr<int64_t> ReadAt(int64_t offset, absl::Span<char> out) const override {
    return base_->ReadAt(offset, out);
  }
  absl::Status WriteAt(int64_t offset, absl::string_view data) override {
    absl::Status decided = owner_->Count(FileOp::kWrite);
    if (decided.ok()) return base_->WriteAt(offset, data);
    if (!absl::IsCancelled(decided)) {  // cancelled: the process is gone
      LH_RETURN_IF_ERROR(base_->WriteAt(offset, data.substr(0, data.size() / 2)));
    }
    return decided;
  }
  absl::Status SyncData() override {
    LH_RETURN_IF_ERROR(owner_->Count(FileOp::kSync));
    return base_->SyncData();
  }
  absl::Status Preallocate(int64_t size) override {
    LH_RETURN_IF_ERROR(owner_->Count(FileOp::kPreallocate));
    return base_->Preallocate(size);
  }
  absl::Status Truncate(int64_t size) override {
    LH_RETURN_IF_ERROR(owner_->Count(FileOp::kTruncate));
    return base_->Truncate(size);
  }
  absl::StatusOr<int64_t> Size() const override { return base_->Size(); }
  void DropCache() override { base_->DropCache(); }

 private:
  FailingFileSystem* const owner_;
  const std::unique_ptr<File> base_;
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

absl::StatusOr<std::unique_ptr<File>> FailingFileSystem::Open(const std::string& path) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, base_->Open(path));
  return std::make_unique<FailingFile>(this, std::move(file));
}

absl::StatusOr<std::unique_ptr<File>> FailingFileSystem::Create(const std::string& path) {
  LH_RETURN_IF_ERROR(Count(FileOp::kCreate));
  LH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, base_->Create(path));
  return std::make_unique<FailingFile>(this, std::move(file));
}

absl::Status FailingFileSystem::CreateDir(const std::string& path) {
  LH_RETURN_IF_ERROR(Count(FileOp::kCreateDir));
  return base_->CreateDir(path);
}

absl::Status FailingFileSystem::Rename(const std::string& from, const std::string& to) {
  LH_RETURN_IF_ERROR(Count(FileOp::kRename));
  return base_->Rename(from, to);
}

absl::Status FailingFileSystem::Remove(const std::string& path) {
  LH_RETURN_IF_ERROR(Count(FileOp::kRemove));
  return base_->Remove(path);
}

absl::StatusOr<std::vector<std::string>> FailingFileSystem::List(const std::string& path) {
  return base_->List(path);
}

absl::Status FailingFileSystem::SyncDir(const std::string& path) {
  LH_RETURN_IF_ERROR(Count(FileOp::kSyncDir));
  return base_->SyncDir(path);
}

}  // namespace longhaul
