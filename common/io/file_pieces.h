// Reads a file piece by piece on a thread of its own, ahead of the caller that hashes or sends the
// pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/io/filesystem.h"

namespace longhaul {

// Bytes of a file. Movable.
struct FilePiece {
  std::unique_ptr<char[]> bytes;
  size_t size = 0;

  absl::string_view view() const { return {bytes.get(), size}; }
};

// Holds at most kAhead + 1 pieces beside those that the caller has taken. One thread calls Next.
class FilePieces {
 public:
  static constexpr int64_t kPieceBytes = 1 << 20;
  static constexpr size_t kAhead = 2;

  // Reads bytes [from, to). `file` outlives the object.
  FilePieces(const File* file, int64_t from, int64_t to);
  // Waits for a read in progress.
  ~FilePieces();
  FilePieces(const FilePieces&) = delete;
  FilePieces& operator=(const FilePieces&) = delete;

  // The next kPieceBytes, fewer at the end, none behind it. Blocks. Errors: those of
  // File::ReadExactly, after the pieces before them.
  absl::StatusOr<FilePiece> Next() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Read(int64_t from, int64_t to) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for room. False: the object is being destroyed.
  bool AwaitRoom() ABSL_LOCKS_EXCLUDED(mutex_);

  const File& file_;
  absl::Mutex mutex_;
  std::deque<FilePiece> pieces_ ABSL_GUARDED_BY(mutex_);
  // Nothing more is read: all is, or a read failed.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace longhaul
