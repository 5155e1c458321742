// The file-system seam: the only way in which the coordinator touches files, so that crashes and
// full disks can be tested.
//
// Durability follows POSIX at its least: written bytes survive a crash only after SyncData of the
// file, and a name that was created, renamed or removed only after SyncDir of its folder. Until
// then each write, or part of it, may or may not be on disk. A FAILED SyncData OR SyncDir IS FINAL:
// the system may have dropped the bytes, a second call may succeed and mean nothing. The caller
// must treat what it wrote since the last success as lost.
//
// Errors: NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED (no space; nothing of
// the call need have happened, space that was asked for is given back), DATA_LOSS (the device
// failed), others as absl::ErrnoToStatus. Every message names the path. Every method may block.
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

// An open regular file, closed by the destructor (which does not sync). Thread-safe; concurrent
// writes to overlapping ranges leave either's bytes.
class File {
 public:
  virtual ~File() = default;
  // Reads up to out.size() bytes; fewer only at the end of the file.
  virtual absl::StatusOr<int64_t> ReadAt(int64_t offset, absl::Span<char> out) const = 0;
  // Writes all of `data`, growing the file if needed; a gap reads as zeros. On an error a part may
  // have been written.
  virtual absl::Status WriteAt(int64_t offset, absl::string_view data) = 0;
  // Makes the bytes written so far, and the file's size, durable.
  virtual absl::Status SyncData() = 0;
  // A hint that these bytes will be synced soon: the system may begin to write them, so that a
  // later SyncData has less to wait for. Promises nothing, reports nothing.
  virtual void WriteBehind(int64_t offset, int64_t size) {}
  // Reserves space so that the file has at least `size` bytes, new ones zero. All or nothing.
  virtual absl::Status Preallocate(int64_t size) = 0;
  virtual absl::Status Truncate(int64_t size) = 0;
  virtual absl::StatusOr<int64_t> Size() const = 0;
  // Later reads come from the device where the system can do that: after a failed sync of an
  // earlier process, memory may still show bytes that the device never got.
  virtual void DropCache() = 0;

  // Writes at the end. Appends of one file are externally synchronised.
  absl::Status Append(absl::string_view data);
  // Fills `out` whole. DATA_LOSS: the file ends before.
  absl::Status ReadExactly(int64_t offset, absl::Span<char> out) const;
};

// Thread-safe. Paths are relative to whatever the implementation says, separated by '/'.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // For reading and writing. NOT_FOUND: no such file.
  virtual absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) = 0;
  // A new empty file in place of any that has the name. NOT_FOUND: no such folder.
  virtual absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) = 0;
  // OK if it is there.
  virtual absl::Status CreateDir(const std::string& path) = 0;
  // Renames a file or folder within one folder, atomically, replacing a file (or an empty folder by
  // a folder).
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file or an empty folder.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Names of what lies in a folder, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // Makes names created, renamed and removed in the folder durable.
  virtual absl::Status SyncDir(const std::string& path) = 0;
};

}  // namespace longhaul
