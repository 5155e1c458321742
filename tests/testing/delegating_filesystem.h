// A file system and a file that pass every call on to another one. A test double derives from them
// and overrides what it changes.
//
// A file owns the file to which it delegates. The base of a file system outlives it. Thread-safe if
// the base is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/io/filesystem.h"

namespace longhaul {

class DelegatingFile : public File {
 public:
  explicit DelegatingFile(std::unique_ptr<File> base) : base_(std::move(base)) {}

  absl::StatusOr<int64_t> ReadAt(int64_t offset, absl::Span<char> out) const override {
    return base_->ReadAt(offset, out);
  }
  absl::Status WriteAt(int64_t offset, absl::string_view data) override {
    return base_->WriteAt(offset, data);
  }
  absl::Status SyncData() override { return base_->SyncData(); }
  void WriteBehind(int64_t offset, int64_t size) override { base_->WriteBehind(offset, size); }
  absl::Status Preallocate(int64_t size) override { return base_->Preallocate(size); }
  absl::Status Truncate(int64_t size) override { return base_->Truncate(size); }
  absl::StatusOr<int64_t> Size() const override { return base_->Size(); }
  void DropCache() override { base_->DropCache(); }

 private:
  const std::unique_ptr<File> base_;
};

class DelegatingFileSystem : public FileSystem {
 public:
  explicit DelegatingFileSystem(FileSystem* base) : base_(base) {}

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override {
    LH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, base_->Open(path));
    return Wrap(std::move(file));
  }
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    LH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, base_->Create(path));
    return Wrap(std::move(file));
  }
  absl::Status CreateDir(const std::string& path) override { return base_->CreateDir(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return base_->Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return base_->Remove(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return base_->List(path);
  }
  absl::Status SyncDir(const std::string& path) override { return base_->SyncDir(path); }
  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override {
    return base_->FreeBytes(path);
  }

 protected:
  // What Open and Create return for a file of the base: the file itself, or one around it.
  virtual std::unique_ptr<File> Wrap(std::unique_ptr<File> file) { return file; }

 private:
  FileSystem* const base_;
};

}  // namespace longhaul
