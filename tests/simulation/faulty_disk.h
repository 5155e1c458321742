// The coordinator's disk, with faults. Externally synchronised.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "coordinator/store/uploads.h"
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

// Some reads of a round fail: those of the folder with which a job begins, for the moment; those
// that verify a contribution, for the moment, or until the next start if the world says that the
// disk cannot read it. Other reads are left alone: once a round changes the state in place, an
// error ends this use of the store by design.
class UnreadableFileSystem : public DelegatingFileSystem {
 public:
  UnreadableFileSystem(FileSystem* base, World* world)
      : DelegatingFileSystem(base), world_(*world) {}
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override {
    LH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, DelegatingFileSystem::Open(path));
    return std::make_unique<UnreadableFile>(std::move(file), path, this);
  }
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    LH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, DelegatingFileSystem::Create(path));
    return std::make_unique<UnreadableFile>(std::move(file), path, this);
  }

 private:
  class UnreadableFile : public DelegatingFile {
   public:
    // A file of the log gets its name once it is prepared.
    UnreadableFile(std::unique_ptr<File> base, const std::string& path,
                   const UnreadableFileSystem* fs)
        : DelegatingFile(std::move(base)), path_(absl::StripSuffix(path, ".tmp")), fs_(*fs) {}
    absl::StatusOr<int64_t> ReadAt(int64_t offset, absl::Span<char> out) const override {
      LH_RETURN_IF_ERROR(fs_.Try(path_, offset));
      return DelegatingFile::ReadAt(offset, out);
    }

   private:
    const std::string path_;
    const UnreadableFileSystem& fs_;
  };
  absl::Status Try(const std::string& path, int64_t offset) const {
    if (!world_.bad_reads || !world_.applies || !world_.faults) return absl::OkStatus();
    // Reads that verify begin with the head of a part, others behind it.
    const auto part = world_.readable.find({path, offset});
    const bool begins =
        absl::StartsWith(path, kImportDir) || absl::StartsWith(path, UploadsFolder(kDataDir));
    if (part == world_.readable.end() && !begins) return absl::OkStatus();
    if (part != world_.readable.end() && !part->second)
      return absl::DataLossError(absl::StrCat(path, ": the device failed"));
    if (begins && world_.loop.now() < world_.folders_away_until)
      return absl::UnavailableError(absl::StrCat(path, ": is not there at the moment"));
    return world_.Chance(0.05)
               ? absl::UnavailableError(absl::StrCat(path, ": no descriptor is left"))
               : absl::OkStatus();
  }

  World& world_;
};

}  // namespace longhaul::simulation
