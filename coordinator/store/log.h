// The append-only log of one job: frames in preallocated files, written through a FileSystem.
//
// Thread-safe. Append makes one copy into the page cache under the lock, and no sync. It starts the
// write to the device at once. So Sync, which makes everything durable that was appended before it,
// has little to wait for. Concurrent syncs share one.
// The next file is made before it is needed: by the call that fills the first half of the current
// one, and without the lock, so that no other call waits for it.
// A failed write or sync is final (fatal.h). A full disk when a frame is written or a file is made
// is not: it gives RESOURCE_EXHAUSTED and leaves the log as it was. So does a lack of file
// descriptors, which gives UNAVAILABLE.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/io/filesystem.h"
#include "coordinator/store/log_file.h"
#include "coordinator/store/log_format.h"

namespace longhaul {

struct LogFile {
  // Shared with readers: one may still read after the file was removed from the log.
  std::shared_ptr<File> file;
  uint64_t first_sequence = 0;
};

// Where a log continues: after its recovery, or at its beginning.
struct LogStart {
  // By number. Every frame in them is durable.
  std::map<int64_t, LogFile> files;
  // Where the frames of the last file end.
  int64_t last_bytes = 0;
  // The next file, if it exists already.
  SpareFile spare;
  // The number of the file after that.
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

  // Space in the current file that no other call can take. Not thread-safe; ends before the log.
  class Reservation {
   public:
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&&) = delete;
    // Gives back what was not used.
    ~Reservation();

   private:
    friend class Log;
    Reservation(Log* log, int64_t bytes) : log_(log), bytes_(bytes) {}
    Log* log_;
    int64_t bytes_;
  };

  // While it lives, no frame with this or a later sequence is removed. Ends before the log.
  class Pin {
   public:
    Pin(Pin&& other) noexcept : log_(std::exchange(other.log_, nullptr)), at_(other.at_) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin();

   private:
    friend class Log;
    Pin(Log* log, std::multiset<uint64_t>::iterator at) : log_(log), at_(at) {}
    Log* log_;
    std::multiset<uint64_t>::iterator at_;
  };

  // `dir` exists.
  Log(FileSystem* fs, std::string dir, const LogFileOptions& options, LogStart start);
  ~Log();

  // Reserves space for frames of so many bytes, as FrameBytes counts them.
  absl::StatusOr<Reservation> Reserve(int64_t bytes);
  // Appends a frame. Its body is `meta` and then the pieces of the payload, which are written
  // without a copy. With a reservation, which must be large enough, the call cannot meet a full
  // disk, if the file system keeps its promise of preallocated space.
  absl::StatusOr<AppendedFrame> Append(FrameType type, absl::string_view meta, Pieces payload,
                                       Reservation* reservation = nullptr);
  absl::Status Sync();
  absl::Status Read(LogPosition position, absl::Span<uint8_t> out) const;

  // Returns the frames with a sequence in [from, to). Frames from `from` on must be pinned, or
  // never removed. Reads only their headers; their bodies are not verified. DATA_LOSS: a header is
  // damaged.
  absl::StatusOr<std::vector<LogFrame>> Frames(uint64_t from, uint64_t to) const;
  uint64_t next_sequence() const;
  Pin PinFrom(uint64_t sequence);
  // Removes files in which every frame has a smaller sequence and is not pinned. Cuts the unused
  // end off files that are left. One call at a time.
  absl::Status RemoveBefore(uint64_t sequence);
  // Gives back the space that was prepared for later frames, since none are expected. A frame that
  // comes nevertheless gets a new file.
  absl::Status GiveBack();

  // Describes a place for a message: its file and byte.
  std::string Describe(LogPosition position) const;

  // OK, or the fatal error that ended the log.
  absl::Status status() const;
  // Ends the log: every later call fails with this error, marked fatal. If the log has ended
  // already, the earlier error stays. Returns the error.
  absl::Status Fail(const absl::Status& error);

 private:
  absl::Status FailLocked(const absl::Status& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the result of work on names and on ends of files. UNAVAILABLE: no descriptor was left, so
  // nothing was tried, and the log is as it was. Any other error ends it. Returns the result.
  absl::Status FailIfTried(const absl::Status& result);
  bool Fits(int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes room for `bytes` that are not reserved, in a new file if needed.
  absl::Status MakeRoom(int64_t bytes);
  // Makes a spare file of at least so many bytes, without holding mutex_.
  absl::Status PrepareSpare(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(prepare_mutex_);
  // Called after an append: makes the spare file if it is time and no other thread does.
  void PrepareAhead();
  void SwitchToSpare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<AppendedFrame> AppendFrame(FrameType type, absl::string_view meta, Pieces payload,
                                            int64_t body_bytes, Reservation* reservation);
  void BeginSync(const AppendedFrame& frame, int64_t body_bytes);
  absl::StatusOr<AppendedFrame> Write(FrameType type, absl::string_view meta, Pieces payload,
                                      int64_t body_bytes, const Digest128& body_digest)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes all frames of smaller sequences durable.
  absl::Status SyncUpto(uint64_t wanted);
  // Makes the frames of files that were left durable, so that a commit finds little to sync.
  absl::Status SyncLeft();
  absl::Status RemoveFilesBefore(uint64_t sequence);
  void CutTails();
  void Release(int64_t bytes);

  FileSystem* const fs_;
  const std::string dir_;
  const LogFileOptions options_;

  // Mutexes are taken in this order. Only one sync runs at a time: its error must be seen before
  // another sync could hide it.
  absl::Mutex sync_mutex_;
  // Held while a file is made.
  absl::Mutex prepare_mutex_;
  mutable absl::Mutex mutex_;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, LogFile> files_ ABSL_GUARDED_BY(mutex_);
  SpareFile spare_ ABSL_GUARDED_BY(mutex_);
  // PrepareAhead is at work.
  bool preparing_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t next_file_ ABSL_GUARDED_BY(mutex_);
  // The file that is written, or 0 if there is none yet.
  int64_t current_ ABSL_GUARDED_BY(mutex_) = 0;
  // Where the next frame begins in it.
  int64_t tail_ ABSL_GUARDED_BY(mutex_) = 0;
  // How many of its bytes frames may fill.
  int64_t size_ ABSL_GUARDED_BY(mutex_) = 0;
  // How many bytes after the tail are reserved.
  int64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;
  // Files that were left while they had unsynced frames, in order. The next sync includes them.
  std::vector<std::shared_ptr<File>> unsynced_ ABSL_GUARDED_BY(mutex_);
  // By number of a file that was left and not cut off yet: where its frames end.
  std::map<int64_t, int64_t> tails_ ABSL_GUARDED_BY(mutex_);
  std::multiset<uint64_t> pins_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_);
  uint64_t durable_upto_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
