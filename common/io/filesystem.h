// The interface of the file system. The coordinator touches files only through it, so that crashes
// and full disks can be tested.
//
// Durability is the least that POSIX promises. Written bytes survive a crash only after SyncData of
// the file. A name that was created, renamed or removed survives only after SyncDir of its folder.
// Until then each write, or a part of it, may or may not be on disk. A FAILED SyncData OR SyncDir
// IS FINAL: the system may have dropped the bytes, and a second call may succeed without writing
// them. The caller must treat everything that it wrote since the last success as lost. The one
// exception is UNAVAILABLE.
//
// Errors: NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED (no space, or the file
// would be larger than this process may make it; the call may have done nothing, and space that it
// requested is given back), UNAVAILABLE (no file descriptor is
// left for this call: nothing was tried, and it may succeed later), DATA_LOSS (the device failed),
// others as in absl::ErrnoToStatus. Every message names the path. Every method may block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul {

// An open regular file. The destructor closes it and does not sync. Thread-safe. Where concurrent
// writes overlap, the bytes of either may remain.
class File {
 public:
  virtual ~File() = default;
  // Reads up to out.size() bytes. Fewer only at the end of the file.
  virtual absl::StatusOr<int64_t> ReadAt(int64_t offset, absl::Span<char> out) const = 0;
  // Writes all of `data`, and makes the file larger if needed; a gap reads as zeros. After an error
  // a part may have been written.
  virtual absl::Status WriteAt(int64_t offset, absl::string_view data) = 0;
  // Makes the bytes written so far, and the file's size, durable.
  virtual absl::Status SyncData() = 0;
  // A hint that these bytes will be synced soon. The system may begin to write them, so that a
  // later SyncData has less to wait for. Guarantees nothing and reports nothing.
  virtual void WriteBehind(int64_t offset, int64_t size) {}
  // Reserves space so that the file has at least `size` bytes, new ones zero. All or nothing.
  virtual absl::Status Preallocate(int64_t size) = 0;
  virtual absl::Status Truncate(int64_t size) = 0;
  virtual absl::StatusOr<int64_t> Size() const = 0;
  // Makes later reads come from the device, if the system can do that. After a failed sync of an
  // earlier process, memory may still show bytes that the device never got.
  virtual void DropCache() = 0;

  // Writes at the end. Appends of one file are externally synchronised.
  absl::Status Append(absl::string_view data);
  // Fills all of `out`. DATA_LOSS: the file ends before.
  absl::Status ReadExactly(int64_t offset, absl::Span<char> out) const;
};

// Thread-safe. Paths are separated by '/'. The implementation says to what they are relative.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Opens a file for reading, and for writing unless this user may only read it. NOT_FOUND: no such
  // file.
  virtual absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) = 0;
  // Makes a new empty file, and replaces any file with the name. NOT_FOUND: no such folder.
  virtual absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) = 0;
  // OK if it exists already.
  virtual absl::Status CreateDir(const std::string& path) = 0;
  // Renames a file or folder within one folder, atomically. A file replaces a file, and a folder an
  // empty folder.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file or an empty folder.
  virtual absl::Status Remove(const std::string& path) = 0;
  // The names in a folder, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // Makes all names durable that were created, renamed or removed in the folder.
  virtual absl::Status SyncDir(const std::string& path) = 0;
  // Bytes that new files in the folder may take, as it is now.
  virtual absl::StatusOr<int64_t> FreeBytes(const std::string& path) = 0;
};

}  // namespace longhaul
