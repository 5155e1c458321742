// The append-only log of one job: frames in preallocated files, written through a
// file-system seam.
//
// Thread-safe. Append costs one copy into the page cache under the lock, no sync; what it wrote
// begins its way to the device at once, so that Sync, which makes everything appended before it
// durable, has little to wait for. Syncs at the same time share one. A failed write or sync
// is final (fatal.h), except a full disk when a frame is written or a file is made: that is
// RESOURCE_EXHAUSTED and leaves the log as it was.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/io/filesystem.h"
#include "coordinator/store/log_format.h"

namespace longhaul {

struct LogFileOptions {
  int64_t file_bytes = 64 << 20;
  uint64_t salt = 0;
};

struct LogFile {
  std::shared_ptr<File> file;  // Shared with readers, who may outlive its removal from the log.
  uint64_t first_sequence = 0;
};

// Where a log goes on: after its recovery, or from nothing.
struct LogStart {
  std::map<int64_t, LogFile> files;  // By number; every frame in them is durable.
  int64_t next_file = 1;
  uint64_t next_sequence = 1;
};

struct AppendedFrame {
  uint64_t sequence = 0;
  LogPosition body;
  Digest128 body_digest;
};

class Log {
 public:
  using Pieces = absl::Span<const absl::Span<const uint8_t>>;

  // Space in the current file that nobody else can take. Not thread-safe; ends before the log.
  class Reservation {
   public:
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&&) = delete;
    ~Reservation();  // Gives back what was not used.

   private:
    friend class Log;
    Reservation(Log* log, int64_t bytes) : log_(log), bytes_(bytes) {}
    Log* log_;
    int64_t bytes_;
  };

  // `dir` exists. The first Append makes a file.
  Log(FileSystem* fs, std::string dir, const LogFileOptions& options, LogStart start);
  ~Log();

  // Reserves so many bytes, in the sense of FrameBytes.
  absl::StatusOr<Reservation> Reserve(int64_t bytes);
  // Appends a frame whose body is `meta`, then the pieces of the payload one after another: written
  // from where they lie. With a reservation, which must be large enough, it cannot meet a full disk
  // on a file system whose preallocation holds.
  absl::StatusOr<AppendedFrame> Append(FrameType type, absl::string_view meta, Pieces payload,
                                       Reservation* reservation = nullptr);
  absl::Status Sync();
  absl::Status Read(LogPosition position, absl::Span<uint8_t> out) const;
  // Removes files all of whose frames have a smaller sequence.
  absl::Status RemoveBefore(uint64_t sequence);

  // OK, or the fatal error that ended the log.
  absl::Status status() const;
  // Ends the log: every later call gives this error, marked fatal. The first one stays. Returns it.
  absl::Status Fail(const absl::Status& error);

 private:
  absl::Status FailLocked(const absl::Status& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Fits(int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes room for `bytes` that are not reserved, by a new file if it must.
  absl::Status MakeRoom(int64_t bytes);
  absl::StatusOr<LogFile> CreateFile(int64_t number, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<AppendedFrame> AppendFrame(FrameType type, absl::string_view meta, Pieces payload,
                                            int64_t body_bytes, Reservation* reservation);
  void BeginSync(const AppendedFrame& frame, int64_t body_bytes);
  absl::StatusOr<AppendedFrame> Write(FrameType type, absl::string_view meta, Pieces payload,
                                      int64_t body_bytes, const Digest128& body_digest)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(int64_t bytes);

  FileSystem* const fs_;
  const std::string dir_;
  const LogFileOptions options_;

  absl::Mutex sync_mutex_;  // Syncs one by one: an error must be seen before another sync can hide
                            // it. Before mutex_.
  mutable absl::Mutex mutex_;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, LogFile> files_ ABSL_GUARDED_BY(mutex_);
  int64_t current_ ABSL_GUARDED_BY(mutex_) = 0;  // File that is written; 0: none yet.
  int64_t next_file_ ABSL_GUARDED_BY(mutex_);
  int64_t tail_ ABSL_GUARDED_BY(mutex_) = 0;      // Where the next frame begins in it.
  int64_t size_ ABSL_GUARDED_BY(mutex_) = 0;      // Bytes preallocated.
  int64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;  // Of them, behind the tail.
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_);
  uint64_t durable_upto_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
