// A file without a name on any disk, for a library that takes secrets only by a path: its content
// is that of this process's memory, and can be replaced at once. The path stays readable until the
// process ends, since such a library may look at it for as long; so a process makes few of them.
//
// Thread-safe. Others of this process may open the path at any time, and then read one content
// whole. Other users cannot; a process that this one starts does not inherit it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace longhaul {

class MemoryFile {
 public:
  // UNAVAILABLE: the system gives no memory or no descriptor.
  static absl::StatusOr<std::unique_ptr<MemoryFile>> Create(absl::string_view content);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Each content has another time of modification. On an error (as of Create) the one before stays.
  absl::Status Replace(absl::string_view content) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& path() const { return path_; }

 private:
  explicit MemoryFile(int fd);

  const int fd_;
  const std::string path_;
  absl::Mutex mutex_;
  int64_t replaced_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longhaul
