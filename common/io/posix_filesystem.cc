#include "common/io/posix_filesystem.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/base/file_limit.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// The process's mask decides whether its group may write, too.
constexpr int kFileMode = 0664, kFolderMode = 0775;

// What file systems answer that have no such call, as SMB, some of FUSE and shared folders of
// virtual machines, and those that are read-only. EIO is not among them: bytes are lost then.
bool CannotSyncFolders(int error) {
  return error == EINVAL || error == ENOTSUP || error == EOPNOTSUPP || error == ENOSYS ||
         error == EROFS || error == EBADF;
}

absl::Status ErrnoStatus(int error, absl::string_view action, const std::string& path) {
  const std::string message = absl::StrCat(action, " ", path);
  if (error == EIO) return absl::DataLossError(absl::StrCat(message, ": input/output error"));
  // As a full disk: it may be over after a change of the limit, and nothing was damaged.
  if (error == EFBIG) {
    return absl::ResourceExhaustedError(absl::StrCat(
        message, ": the file would exceed the limit of this process (ulimit -f) or file system"));
  }
  return absl::ErrnoToStatus(error, message);
}

// For calls that need a new descriptor. If there is none, nothing was done.
absl::Status OpenStatus(int error, absl::string_view action, const std::string& path) {
  const absl::Status status = ErrnoStatus(error, action, path);
  const bool none = error == EMFILE || error == ENFILE || error == ENOMEM;
  if (!none) return status;
  return absl::UnavailableError(absl::StrCat(status.message(), FileLimitWords(error)));
}

// UNAVAILABLE means that a sync was not tried, so a failed one never has it.
absl::Status SyncStatus(int error, absl::string_view action, const std::string& path) {
  const absl::Status status = ErrnoStatus(error, action, path);
  return absl::IsUnavailable(status) ? absl::DataLossError(status.message()) : status;
}

class PosixFile : public File {
 public:
  PosixFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~PosixFile() override { close(descriptor_); }

  absl::StatusOr<int64_t> ReadAt(int64_t offset, absl::Span<char> out) const override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = pread(descriptor_, out.data() + done, out.size() - done, offset + done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "read", path_);
      if (n == 0) break;
      done += n;
    }
    return done;
  }

  absl::Status WriteAt(int64_t offset, absl::string_view data) override {
    while (!data.empty()) {
      const ssize_t n = pwrite(descriptor_, data.data(), data.size(), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "write", path_);
      data.remove_prefix(n);
      offset += n;
    }
    return absl::OkStatus();
  }

  absl::Status SyncData() override {
    if (fdatasync(descriptor_) != 0) return SyncStatus(errno, "sync", path_);
    return absl::OkStatus();
  }

  void WriteBehind(int64_t offset, int64_t size) override {
#ifdef SYNC_FILE_RANGE_WRITE
    // No flag that waits is given: a call that waits would consume the error that SyncData must
    // see.
    (void)sync_file_range(descriptor_, offset, size, SYNC_FILE_RANGE_WRITE);
#endif
  }

  absl::Status Preallocate(int64_t size) override {
    LH_ASSIGN_OR_RETURN(const int64_t before, Size());
    if (size <= before) return absl::OkStatus();
    int error;
    do {
      error = posix_fallocate(descriptor_, before, size - before);
    } while (error == EINTR);
    if (error == 0) return absl::OkStatus();
    // A failed call keeps the space that it got, which may be all free space.
    (void)Truncate(before);
    return ErrnoStatus(error, "preallocate", path_);
  }

  absl::Status Truncate(int64_t size) override {
    if (ftruncate(descriptor_, size) != 0) return ErrnoStatus(errno, "truncate", path_);
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Size() const override {
    struct stat info;
    if (fstat(descriptor_, &info) != 0) return ErrnoStatus(errno, "stat", path_);
    return info.st_size;
  }

  void DropCache() override { posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED); }

 private:
  const int descriptor_;
  const std::string path_;
};

absl::StatusOr<std::unique_ptr<File>> OpenWith(int flags, absl::string_view action,
                                               const std::string& path) {
  // Without O_NONBLOCK a pipe of that name would be waited for.
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, kFileMode);
  if (descriptor < 0) return OpenStatus(errno, action, path);
  auto file = std::make_unique<PosixFile>(descriptor, path);
  struct stat info;
  if (fstat(descriptor, &info) != 0) return ErrnoStatus(errno, "stat", path);
  if (!S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  return file;
}

class PosixFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override {
    absl::StatusOr<std::unique_ptr<File>> file = OpenWith(O_RDWR, "open", path);
    return absl::IsPermissionDenied(file.status()) ? OpenWith(O_RDONLY, "open", path)
                                                   : std::move(file);
  }

  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    return OpenWith(O_RDWR | O_CREAT | O_TRUNC, "create", path);
  }

  absl::Status CreateDir(const std::string& path) override {
    if (mkdir(path.c_str(), kFolderMode) == 0) return absl::OkStatus();
    const int error = errno;
    struct stat info;
    if (error == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return absl::OkStatus();
    }
    return ErrnoStatus(error, "make folder", path);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, "rename", absl::StrCat(from, " to ", to));
  }

  absl::Status Remove(const std::string& path) override {
    if (remove(path.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, "remove", path);
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    DIR* folder = opendir(path.c_str());
    if (folder == nullptr) return OpenStatus(errno, "list", path);
    std::vector<std::string> names;
    errno = 0;
    for (const dirent* entry = readdir(folder); entry != nullptr; entry = readdir(folder)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    const int error = errno;
    closedir(folder);
    if (error != 0) return ErrnoStatus(error, "list", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status SyncDir(const std::string& path) override {
    const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return OpenStatus(errno, "open folder", path);
    const int error = fsync(descriptor) == 0 ? 0 : errno;
    close(descriptor);
    if (error == 0 || CannotSyncFolders(error)) return absl::OkStatus();
    return SyncStatus(error, "sync folder", path);
  }

  absl::StatusOr<int64_t> FreeBytes(const std::string& path) override {
    struct statvfs info;
    if (statvfs(path.c_str(), &info) != 0) return ErrnoStatus(errno, "look for space in", path);
    return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  }
};

}  // namespace

bool CanSyncFolders(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return true;
  const bool can = fsync(descriptor) == 0 || !CannotSyncFolders(errno);
  close(descriptor);
  return can;
}

std::unique_ptr<FileSystem> MakePosixFileSystem() { return std::make_unique<PosixFileSystem>(); }

}  // namespace longhaul
