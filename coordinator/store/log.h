// The append-only log of one job: frames in preallocated files, written through a file-system seam.
//
// Thread-safe. Append costs one copy into the page cache under the lock, no sync; what it wrote
// begins its way to the device at once, so that Sync, which makes everything appended before it
// durable, has little to wait for. Syncs at the same time share one. The next file is made before
// it is needed, by the appender that fills the first half of the current one and without the lock,
// so that nobody else waits for the making. A failed write or sync is final (fatal.h), except a
// full disk when a frame is written or a file is made: that is RESOURCE_EXHAUSTED and leaves the
// log as it was.
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
  std::shared_ptr<File> file;  // Shared with readers, who may outlive its removal from the log.
  uint64_t first_sequence = 0;
};

// Where a log goes on: after its recovery, or from nothing.
struct LogStart {
  std::map<int64_t, LogFile> files;  // By number; every frame in them is durable.
  int64_t last_bytes = 0;            // Where the frames of the last of them end.
  SpareFile spare;                   // The next one, if it is there already.
  int64_t next_file = 1;             // Number of the one after.
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

  // Keeps frames from a sequence on from being removed, while it lives. Ends before the log.
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

  // Reserves so many bytes, in the sense of FrameBytes.
  absl::StatusOr<Reservation> Reserve(int64_t bytes);
  // Appends a frame whose body is `meta`, then the pieces of the payload one after another: written
  // from where they lie. With a reservation, which must be large enough, it cannot meet a full disk
  // on a file system whose preallocation holds.
  absl::StatusOr<AppendedFrame> Append(FrameType type, absl::string_view meta, Pieces payload,
                                       Reservation* reservation = nullptr);
  absl::Status Sync();
  absl::Status Read(LogPosition position, absl::Span<uint8_t> out) const;

  // The frames of sequence [from, to), of which those from `from` on are pinned or were never
  // removed, by their headers: their bodies are not checked. DATA_LOSS: a header does not check.
  absl::StatusOr<std::vector<LogFrame>> Frames(uint64_t from, uint64_t to) const;
  uint64_t next_sequence() const;
  Pin PinFrom(uint64_t sequence);
  // Removes files all of whose frames have a smaller sequence and are not pinned; cuts off what
  // others do not use. One call at a time.
  absl::Status RemoveBefore(uint64_t sequence);
  // Gives back the space that was made ready for frames to come: none are expected. Frames that
  // come all the same get a new file.
  absl::Status GiveBack();

  // A place in words: its file and byte.
  std::string Describe(LogPosition position) const;

  // OK, or the fatal error that ended the log.
  absl::Status status() const;
  // Ends the log: every later call gives this error, marked fatal. The first one stays. Returns it.
  absl::Status Fail(const absl::Status& error);

 private:
  absl::Status FailLocked(const absl::Status& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Fits(int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes room for `bytes` that are not reserved, by a new file if it must.
  absl::Status MakeRoom(int64_t bytes);
  // Makes the spare file of at least so many bytes, without the lock.
  absl::Status PrepareSpare(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(prepare_mutex_);
  // After an append: makes the spare file if it is time to and nobody does.
  void PrepareAhead();
  void SwitchToSpare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<AppendedFrame> AppendFrame(FrameType type, absl::string_view meta, Pieces payload,
                                            int64_t body_bytes, Reservation* reservation);
  void BeginSync(const AppendedFrame& frame, int64_t body_bytes);
  absl::StatusOr<AppendedFrame> Write(FrameType type, absl::string_view meta, Pieces payload,
                                      int64_t body_bytes, const Digest128& body_digest)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes frames of a smaller sequence durable.
  absl::Status SyncUpto(uint64_t wanted);
  // The same for the files that were left, so that a commit finds little to sync.
  absl::Status SyncLeft();
  absl::Status RemoveFiles(uint64_t sequence);
  void CutTails();
  void Release(int64_t bytes);

  FileSystem* const fs_;
  const std::string dir_;
  const LogFileOptions options_;

  // In the order of taking. Syncs one by one: an error must be seen before another sync can hide it.
  absl::Mutex sync_mutex_;
  absl::Mutex prepare_mutex_;  // Held while a file is made.
  mutable absl::Mutex mutex_;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, LogFile> files_ ABSL_GUARDED_BY(mutex_);
  SpareFile spare_ ABSL_GUARDED_BY(mutex_);
  bool preparing_ ABSL_GUARDED_BY(mutex_) = false;  // PrepareAhead is at work.
  int64_t next_file_ ABSL_GUARDED_BY(mutex_);
  int64_t current_ ABSL_GUARDED_BY(mutex_) = 0;   // File that is written; 0: none yet.
  int64_t tail_ ABSL_GUARDED_BY(mutex_) = 0;      // Where the next frame begins in it.
  int64_t size_ ABSL_GUARDED_BY(mutex_) = 0;      // What frames may fill.
  int64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;  // Of them, behind the tail.
  // Files that were left with frames that no sync covered, in order: the next sync does.
  std::vector<std::shared_ptr<File>> unsynced_ ABSL_GUARDED_BY(mutex_);
  // Where the frames end in files that were left and not cut off yet, by number.
  std::map<int64_t, int64_t> tails_ ABSL_GUARDED_BY(mutex_);
  std::multiset<uint64_t> pins_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_);
  uint64_t durable_upto_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
