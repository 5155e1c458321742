// Folders that users sent to the coordinator for their jobs to begin with.
//
//   <data>/uploads/<digest>/           whole: every file verified, then renamed
//   <data>/uploads/<digest>.partial/   on its way; each file has the bytes that came so far
//   <data>/uploads/<digest>.removed/   being removed
//   .../.files                         in the first two: when it was last used, and the list of
//                                      files
//
// The name is the digest of the list of files (common/checkpoint/folder_files.h), so the same files
// are kept once. What came stays over a restart. An upload is removed when no job needs it and
// nobody has used it for `keep`; sooner if another one needs its room, a minute after it was last
// used. A start counts as a use: the clock may have been set, so that what was there looks old.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/thread_team.h"
#include "common/checkpoint/folder_files.h"
#include "common/io/filesystem.h"
#include "common/io/sha256.h"

namespace longhaul {

inline constexpr int64_t kUploadBytesDefault = int64_t{256} << 30;
// Each file costs memory, and its name room on the disk, whatever its size.
inline constexpr int64_t kUploadFilesDefault = 1 << 16;
inline constexpr absl::Duration kUploadKeepDefault = absl::Hours(6);
// What an upload leaves free on the disk, for the logs of jobs.
inline constexpr int64_t kUploadFreeMin = int64_t{256} << 20;

std::string UploadsFolder(const std::string& data_dir);
// Of a whole one.
std::string UploadFolder(const std::string& data_dir, const std::string& upload);

// What of a file is there.
struct ReceivedFile {
  int64_t bytes = 0;
  bool verified = false;
};

// One file on its way, from who sends it. Not thread-safe; blocks on the disk.
class IncomingFile {
 public:
  // What came stays.
  virtual ~IncomingFile() = default;
  virtual int64_t bytes() const = 0;
  // The pieces follow each other in the file. INVALID_ARGUMENT: more than the file has. Else the
  // errors of the file system: RESOURCE_EXHAUSTED, the disk is full. After an error none of them
  // counts.
  virtual absl::Status Append(absl::Span<const absl::string_view> pieces) = 0;
  absl::Status Append(absl::string_view data) { return Append(absl::MakeConstSpan(&data, 1)); }
  struct Ended {
    ReceivedFile file;
    bool complete = false;  // The upload is whole, and has its name.
  };
  // Nothing more comes. Verifies a file that is whole, and syncs it. DATA_LOSS: its digest is
  // another; its bytes are dropped.
  virtual absl::StatusOr<Ended> Finish() = 0;
};

// Thread-safe; blocks on the disk.
class Uploads {
 public:
  struct Options {
    std::string data_dir;
    int64_t bytes_max = kUploadBytesDefault;  // Of all. 0: none are taken.
    int64_t files_max = kUploadFilesDefault;  // Of all.
    absl::Duration keep = kUploadKeepDefault;
    int64_t free_min = kUploadFreeMin;
  };
  // Finds what is there, and ends removals that were interrupted. What is no upload is left alone.
  // `troubles`, if not null, gets a text for each folder that cannot be used or removed now, which
  // is left alone, and for each whole upload that was removed since it is damaged. `fs` and `clock`
  // outlive the object. Errors: those of the file system, if the folders cannot be listed.
  static absl::StatusOr<std::unique_ptr<Uploads>> Open(
      FileSystem* fs, const Clock* clock, const Options& options,
      std::vector<std::string>* troubles = nullptr);
  ~Uploads();

  struct Prepared {
    bool complete = false;
    std::vector<ReceivedFile> files;  // In the order of the request.
  };
  // Makes the upload, or finds it. Older ones that no job needs make room for it.
  //   INVALID_ARGUMENT     the files are none of a folder (CheckFolderFiles)
  //   FAILED_PRECONDITION  it never fits into `bytes_max`
  //   RESOURCE_EXHAUSTED   it does not fit now: into `bytes_max` or `files_max`, or on the disk
  absl::StatusOr<Prepared> Prepare(const std::vector<FolderFile>& files)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // One at a time for each file; the object must outlive it. Reads what is there once after a
  // start.
  //   NOT_FOUND     no such upload, no such file
  //   OUT_OF_RANGE  the file has another number of bytes
  //   UNAVAILABLE   another client is sending this file
  absl::StatusOr<std::unique_ptr<IncomingFile>> Receive(const std::string& upload,
                                                        const std::string& file, int64_t offset)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The folder of a whole one, which counts as used now. Nothing: it is not here, or not whole.
  std::optional<std::string> Find(const std::string& upload) ABSL_LOCKS_EXCLUDED(mutex_);

  // Those that jobs need now. Until the first call all are needed.
  // Does not block.
  void SetNeeded(std::set<std::string> needed) ABSL_LOCKS_EXCLUDED(needed_mutex_);
  // Removes what nobody needs; the names of what it removed. Errors leave an upload for the next
  // call.
  std::vector<std::string> Sweep() ABSL_LOCKS_EXCLUDED(mutex_);

  struct Counts {
    int64_t whole = 0;
    int64_t partial = 0;  // On their way.
    int64_t bytes = 0;    // What all of them have or will have.
  };
  Counts counts() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of all uploads together.
  int64_t bytes_max() const { return options_.bytes_max; }

 private:
  struct Upload;
  class Incoming;
  using ById = std::map<std::string, std::shared_ptr<Upload>, std::less<>>;

  Uploads(FileSystem* fs, const Clock* clock, const Options& options);
  // DATA_LOSS: a whole upload was damaged, and was removed.
  absl::Status Load(const std::string& name);
  std::string PathOf(const Upload& upload) const;
  absl::Status WriteList(Upload& upload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Make(Upload& upload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Publish(Upload& upload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Touch(Upload& upload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t Sum() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t Files() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether `upload` fits; `known`: it is in the list.
  absl::Status CheckRoom(const Upload& upload, bool known) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The one that was not used for the longest time, among those that may go. End: there is none.
  ById::iterator OldestUnneeded(const std::string& but, absl::Duration unused)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes it out of the list, durably; the folder's new name, which RemoveFolder is for.
  absl::StatusOr<std::string> TakeOut(ById::iterator at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  FileSystem* const fs_;
  const Clock* const clock_;
  // Hashes while the calling thread writes. One upload at a time has it; the others do both in
  // turn.
  ThreadTeam team_{2};
  const Options options_;
  const absl::Time opened_;
  mutable absl::Mutex mutex_;
  ById uploads_ ABSL_GUARDED_BY(mutex_);
  // Of its own: nobody holds it while the disk works.
  absl::Mutex needed_mutex_ ABSL_ACQUIRED_AFTER(mutex_);
  std::optional<std::set<std::string>> needed_ ABSL_GUARDED_BY(needed_mutex_);
};

// Whether each file of the whole uploads has its digest: for `longhaul-coordinator --check`. A
// finding a file; `uploads` counts them. Reads everything.
std::vector<std::string> CheckUploads(FileSystem& fs, const std::string& data_dir,
                                      int64_t* uploads);

}  // namespace longhaul
