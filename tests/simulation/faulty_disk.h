// The coordinator's disk, with faults. Externally synchronised.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "tests/simulation/world.h"
#include "tests/testing/delegating_filesystem.h"

namespace longhaul::simulation {

// The caller syncs files; the disk does so the first time, when a file is made, and then no more.
class LyingFileSystem : public DelegatingFileSystem {
 public:
  using DelegatingFileSystem::DelegatingFileSystem;

 protected:
  std::unique_ptr<File> Wrap(std::unique_ptr<File> file) override {
    return std::make_unique<LyingFile>(std::move(file));
  }

 private:
  class LyingFile : public DelegatingFile {
   public:
    using DelegatingFile::DelegatingFile;
    absl::Status SyncData() override {
      return syncs_++ == 0 ? DelegatingFile::SyncData() : absl::OkStatus();
    }

   private:
    int syncs_ = 0;
  };
};

// Takes nothing that needs space while the world's disk is full. What was prepared can be written.
class FullFileSystem : public DelegatingFileSystem {
 public:
  FullFileSystem(FileSystem* base, const World* world)
      : DelegatingFileSystem(base), world_(*world) {}
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    LH_RETURN_IF_ERROR(Room());
    return DelegatingFileSystem::Create(path);
  }
  absl::Status CreateDir(const std::string& path) override {
    LH_RETURN_IF_ERROR(Room());
    return DelegatingFileSystem::CreateDir(path);
  }
  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override {
    return world_.disk_full ? 0 : DelegatingFileSystem::FreeBytes(path);
  }

 protected:
  std::unique_ptr<File> Wrap(std::unique_ptr<File> file) override {
    return std::make_unique<FullFile>(std::move(file), this);
  }

 private:
  class FullFile : public DelegatingFile {
   public:
    FullFile(std::unique_ptr<File> base, const FullFileSystem* fs)
        : DelegatingFile(std::move(base)), fs_(*fs) {}
    absl::Status WriteAt(int64_t offset, absl::string_view data) override {
      LH_ASSIGN_OR_RETURN(const int64_t size, Size());
      if (offset + static_cast<int64_t>(data.size()) > size) LH_RETURN_IF_ERROR(fs_.Room());
      return DelegatingFile::WriteAt(offset, data);
    }
    absl::Status Preallocate(int64_t size) override {
      LH_RETURN_IF_ERROR(fs_.Room());
      return DelegatingFile::Preallocate(size);
    }

   private:
    const FullFileSystem& fs_;
  };
  absl::Status Room() const {
    return world_.disk_full ? absl::ResourceExhaustedError("no space left") : absl::OkStatus();
  }

  const World& world_;
};

}  // namespace longhaul::simulation
