#include "coordinator/cli/upload.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/io/file_pieces.h"
#include "common/io/file_util.h"
#include "common/io/sha256.h"
#include "common/rpc/bulk_call.h"
#include "common/rpc/retry.h"
#include "common/rpc/status_details.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/transfer_progress.h"

namespace longhaul::cli {
namespace {

// Files that are read and hashed at one time. Each has two threads: SHA-256 is slower than reading.
constexpr size_t kFilesAtOnce = 4;

absl::StatusOr<SeenFile> LookAt(const std::string& folder, const std::string& name) {
  const std::string path = JoinPath(folder, name);
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  return SeenFile{.name = name,
                  .bytes = info.st_size,
                  .inode = info.st_ino,
                  .changed_ns = absl::ToUnixNanos(absl::TimeFromTimespec(info.st_ctim))};
}

absl::Status Changed(const std::string& folder, const SeenFile& seen) {
  return absl::AbortedError(
      absl::StrCat(JoinPath(folder, seen.name), " changed while the folder was read or sent"));
}

absl::Status CheckUnchanged(const std::string& folder, const SeenFile& seen) {
  const absl::StatusOr<SeenFile> now = LookAt(folder, seen.name);
  return now.ok() && *now == seen ? absl::OkStatus() : Changed(folder, seen);
}

absl::StatusOr<std::string> DigestOfFile(FileSystem& fs, const std::string& folder,
                                         const SeenFile& seen,
                                         const std::function<void(int64_t)>& on_read) {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Open(JoinPath(folder, seen.name)));
  Sha256 sha;
  FilePieces pieces(file.get(), 0, seen.bytes);
  // A file that became shorter is found below.
  for (auto piece = pieces.Next(); piece.ok() && piece->size > 0; piece = pieces.Next()) {
    sha.Update(piece->view());
    on_read(static_cast<int64_t>(piece->size));
  }
  LH_RETURN_IF_ERROR(CheckUnchanged(folder, seen));
  return sha.Hex();
}

// Fills in the digests of `files`, which are those of `seen`. `on_read` is called from other
// threads, one call at a time.
absl::Status DigestFiles(FileSystem& fs, const std::string& folder,
                         const std::vector<SeenFile>& seen,
                         const std::function<void(int64_t)>& on_read,
                         std::vector<FolderFile>& files) {
  absl::Mutex mutex;
  const auto count = [&](int64_t bytes) {
    absl::MutexLock lock(&mutex);
    on_read(bytes);
  };
  std::atomic<size_t> next = 0;
  return RunParts(
      std::min({kFilesAtOnce, seen.size(), size_t{std::thread::hardware_concurrency()} + 1}), {},
      [&](size_t, const std::stop_token& stop, WireBytes&) -> absl::Status {
        for (size_t i = next++; i < seen.size() && !stop.stop_requested(); i = next++) {
          LH_ASSIGN_OR_RETURN(files[i].sha256, DigestOfFile(fs, folder, seen[i], count));
        }
        return absl::OkStatus();
      });
}

class Uploading {
 public:
  Uploading(const FolderToSend& folder, Client& client, FileSystem& fs,
            const Environment& environment)
      : folder_(folder),
        client_(client),
        fs_(fs),
        environment_(environment),
        progress_(environment) {
    request_.set_upload(folder.upload);
    for (const FolderFile& file : folder.files) {
      v1::UploadedFile* announced = request_.add_files();
      announced->set_name(file.name);
      announced->set_bytes(file.bytes);
      announced->set_sha256(file.sha256);
    }
    result_.bytes = folder.bytes();
  }

  absl::StatusOr<Uploaded> Run() {
    absl::Time heard = environment_.clock.Now();
    for (int attempt = 0;; ++attempt) {
      const int64_t before = result_.sent;
      const absl::StatusOr<bool> complete = SendMissing();
      if (complete.ok() && *complete) return result_;
      const absl::Time now = environment_.clock.Now();
      if (result_.sent > before) heard = now, attempt = 0;
      const absl::Status status =
          complete.ok() ? absl::InternalError("the server does not complete the upload")
                        : complete.status();
      if (!MayTryAgain(status, attempt) || now - heard > kSilentMax) return status;
      const auto asked = RetryDelayOf(status).value_or(absl::Milliseconds(50));
      environment_.clock.SleepUntil(now + asked + FullJitter({}, attempt, random_));
    }
  }

 private:
  bool MayTryAgain(const absl::Status& status, int attempt) {
    if (absl::IsInternal(status)) return attempt < 2;
    if (absl::IsDataLoss(status)) {
      // The file has not changed here, so it was damaged on the way.
      if (std::exchange(damaged_, true)) return false;
      progress_.Say(absl::StrCat(Printable(status.message()), "; sending it again"));
      return true;
    }
    // The server removed the upload, or another client sent a part of it. PrepareUpload tells what
    // is missing.
    const auto info = ErrorInfoOf(status);
    if (info.has_value() && (info->reason == "UPLOAD_UNKNOWN" || info->reason == "UPLOAD_OFFSET"))
      return true;
    if (!answered_) return false;
    const bool lost = absl::IsUnavailable(status) || absl::IsCancelled(status);
    if (lost) progress_.Lost(status, client_.address());
    return lost || absl::IsDeadlineExceeded(status) || RetryDelayOf(status).has_value();
  }

  // Whether the upload is complete now.
  absl::StatusOr<bool> SendMissing() {
    LH_ASSIGN_OR_RETURN(const v1::PrepareUploadResponse there, client_.PrepareUpload(request_));
    answered_ = true;
    progress_.Connected();
    if (there.complete()) return true;
    if (there.files_size() != request_.files_size())
      return absl::InternalError("the server answers for other files");
    done_ = 0;
    for (const v1::FileProgress& file : there.files()) done_ += file.bytes();
    bool complete = false;
    for (int i = 0; i < there.files_size(); ++i) {
      if (there.files(i).verified()) continue;
      LH_ASSIGN_OR_RETURN(complete, SendFile(i, there.files(i).bytes()));
    }
    return complete;
  }

  absl::StatusOr<bool> SendFile(int index, int64_t at) {
    const SeenFile& seen = folder_.seen[index];
    LH_RETURN_IF_ERROR(CheckUnchanged(folder_.path, seen));
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                        fs_.Open(JoinPath(folder_.path, seen.name)));
    FilePieces pieces(file.get(), at, seen.bytes);
    v1::UploadFileRequest first;
    first.set_upload(folder_.upload);
    first.set_file(seen.name);
    first.set_offset(at);
    const absl::StatusOr<v1::UploadFileResponse> sent =
        client_.UploadFile(first, SteadyTime() + kStreamMax, [&]() -> absl::StatusOr<FilePiece> {
          absl::StatusOr<FilePiece> piece = pieces.Next();
          if (!piece.ok()) return Changed(folder_.path, seen);
          done_ += static_cast<int64_t>(piece->size);
          result_.sent += static_cast<int64_t>(piece->size);
          progress_.Show("sending ", done_, result_.bytes);
          return piece;
        });
    // A file that changed here explains a digest that differs there.
    LH_RETURN_IF_ERROR(CheckUnchanged(folder_.path, seen));
    LH_RETURN_IF_ERROR(sent.status());
    return sent->complete();
  }

  const FolderToSend& folder_;
  Client& client_;
  FileSystem& fs_;
  const Environment& environment_;
  Random random_{static_cast<uint64_t>(absl::ToUnixNanos(environment_.clock.Now()))};
  TransferProgress progress_;
  v1::PrepareUploadRequest request_;
  Uploaded result_;
  // Bytes that the server has, as far as this client knows.
  int64_t done_ = 0;
  bool answered_ = false, damaged_ = false;
};

}  // namespace

int64_t FolderToSend::bytes() const {
  int64_t sum = 0;
  for (const FolderFile& file : files) sum += file.bytes;
  return sum;
}

absl::StatusOr<std::vector<SeenFile>> LookAtFolder(FileSystem& fs, const std::string& folder) {
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesNeededOf(fs, folder));
  std::vector<SeenFile> seen;
  for (const std::string& name : names) {
    LH_ASSIGN_OR_RETURN(seen.emplace_back(), LookAt(folder, name));
  }
  return seen;
}

absl::StatusOr<FolderToSend> ReadFolder(FileSystem& fs, const std::string& folder,
                                        const Environment& environment) {
  FolderToSend read{.path = folder};
  LH_ASSIGN_OR_RETURN(read.seen, LookAtFolder(fs, folder));
  TransferProgress progress(environment);
  int64_t done = 0, all = 0;
  for (const SeenFile& seen : read.seen) all += seen.bytes;
  for (const SeenFile& seen : read.seen) {
    FolderFile& file = read.files.emplace_back();
    file.name = seen.name;
    file.bytes = seen.bytes;
  }
  LH_RETURN_IF_ERROR(DigestFiles(
      fs, folder, read.seen,
      [&](int64_t bytes) {
        done += bytes;
        progress.Show("reading ", done, all);
      },
      read.files));
  LH_RETURN_IF_ERROR(CheckFolderFiles(read.files));
  read.upload = DigestOfFiles(read.files);
  return read;
}

std::string HintOfUpload(const absl::Status& status) {
  return absl::IsAborted(status) ? "submit again when nothing writes to the folder" : "";
}

absl::StatusOr<Uploaded> Upload(const FolderToSend& folder, Client& client, FileSystem& fs,
                                const Environment& environment) {
  return Uploading(folder, client, fs, environment).Run();
}

}  // namespace longhaul::cli
