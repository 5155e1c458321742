// A file system that calls back when a file is made: what a test does there happens while somebody
// writes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/io/filesystem.h"

namespace longhaul {

class HookFileSystem : public FileSystem {
 public:
  // `base` outlives it.
  explicit HookFileSystem(FileSystem* base) : base_(base) {}

  // Once, before the next file is made whose path contains `part`.
  void OnCreate(std::string part, std::function<void()> hook) {
    part_ = std::move(part);
    hook_ = std::move(hook);
  }
  bool called() const { return hook_ == nullptr; }

  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    if (hook_ != nullptr && path.find(part_) != std::string::npos) std::exchange(hook_, nullptr)();
    return base_->Create(path);
  }
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override {
    return base_->Open(path);
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

 private:
  FileSystem* const base_;
  std::string part_;
  std::function<void()> hook_;
};

}  // namespace longhaul
