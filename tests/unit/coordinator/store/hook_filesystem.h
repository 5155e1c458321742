// A file system that calls a hook when a file or a folder is made. So a test can do something while
// a file is being written.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/testing/delegating_filesystem.h"

namespace longhaul {

class HookFileSystem : public DelegatingFileSystem {
 public:
  // `base` outlives it.
  explicit HookFileSystem(FileSystem* base) : DelegatingFileSystem(base) {}

  // Called once, before the next file or folder is made whose path contains `part`.
  void OnCreate(std::string part, std::function<void()> hook) {
    part_ = std::move(part);
    hook_ = std::move(hook);
  }
  bool called() const { return hook_ == nullptr; }

  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    Call(path);
    return DelegatingFileSystem::Create(path);
  }
  absl::Status CreateDir(const std::string& path) override {
    Call(path);
    return DelegatingFileSystem::CreateDir(path);
  }

 private:
  void Call(const std::string& path) {
    if (hook_ != nullptr && path.find(part_) != std::string::npos) std::exchange(hook_, nullptr)();
  }

  std::string part_;
  std::function<void()> hook_;
};

}  // namespace longhaul
