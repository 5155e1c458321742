#include "coordinator/store/uploads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/bytes_text.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "coordinator/store/disk_room.h"

namespace longhaul {
namespace {

constexpr char kListFile[] = ".files", kPartial[] = ".partial", kRemoved[] = ".removed";
constexpr char kListMagic[] = "longhaul upload 1\n";
// 4,100 lines of at most 350 bytes.
constexpr int64_t kListBytesMax = 2 << 20;
// An upload that was used so recently is not removed to make room: its job may be about to come.
constexpr absl::Duration kUsedNow = absl::Minutes(1);

struct StoredList {
  absl::Time touched;
  std::vector<FolderFile> files;
};

std::string ListText(const StoredList& list) {
  return absl::StrCat(kListMagic, "used ", absl::ToUnixSeconds(list.touched), "\n",
                      ListOfFiles(list.files));
}

// DATA_LOSS: it is not the list of this upload.
absl::StatusOr<StoredList> ReadList(FileSystem& fs, const std::string& folder,
                                    const std::string& upload) {
  const std::string path = JoinPath(folder, kListFile);
  LH_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kListBytesMax));
  absl::string_view rest = text;
  int64_t seconds = 0;
  const bool known = absl::ConsumePrefix(&rest, kListMagic) &&
                     absl::ConsumePrefix(&rest, "used ") &&
                     absl::SimpleAtoi(rest.substr(0, rest.find('\n')), &seconds);
  if (!known) return absl::DataLossError(absl::StrCat(path, " is not the file list of an upload"));
  absl::StatusOr<std::vector<FolderFile>> files =
      ParseListOfFiles(rest.substr(rest.find('\n') + 1));
  if (!files.ok() || DigestOfFiles(*files) != upload)
    return absl::DataLossError(absl::StrCat(path, " is damaged"));
  return StoredList{absl::FromUnixSeconds(seconds), *std::move(files)};
}

// A file that does not exist has no bytes.
absl::StatusOr<int64_t> SizeOf(FileSystem& fs, const std::string& path) {
  const absl::StatusOr<std::unique_ptr<File>> file = fs.Open(path);
  if (absl::IsNotFound(file.status())) return 0;
  LH_RETURN_IF_ERROR(file.status());
  return (*file)->Size();
}

}  // namespace

std::string UploadsFolder(const std::string& data_dir) { return JoinPath(data_dir, "uploads"); }

std::string UploadFolder(const std::string& data_dir, const std::string& upload) {
  return JoinPath(UploadsFolder(data_dir), upload);
}

// Guarded by the mutex of Uploads, except what belongs to the stream that sends a file.
struct Uploads::Upload {
  struct Part {
    ReceivedFile received;
    // A stream sends it now.
    bool busy = false;
    // Belong to that stream: the digest of the first `hashed` bytes.
    Sha256 sha;
    int64_t hashed = 0;
  };
  std::string id;
  // Sorted by name. Constant.
  std::vector<FolderFile> files;
  // One for each of `files`, in the same order.
  std::vector<Part> parts;
  // The sum over all files.
  int64_t bytes = 0;
  bool whole = false;
  // The time of the last use: the true one, and the one on disk.
  absl::Time touched, written;

  bool busy() const {
    return std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.busy; });
  }
  bool verified() const {
    return std::all_of(parts.begin(), parts.end(),
                       [](const Part& part) { return part.received.verified; });
  }
  int64_t missing() const {
    int64_t sum = 0;
    for (size_t i = 0; i < files.size(); ++i) sum += files[i].bytes - parts[i].received.bytes;
    return whole ? 0 : sum;
  }

  static std::shared_ptr<Upload> Of(std::string id, std::vector<FolderFile> files) {
    auto upload = std::make_shared<Upload>();
    std::sort(files.begin(), files.end(),
              [](const FolderFile& a, const FolderFile& b) { return a.name < b.name; });
    for (const FolderFile& file : files) upload->bytes += file.bytes;
    upload->id = std::move(id);
    upload->parts.resize(files.size());
    upload->files = std::move(files);
    return upload;
  }
  size_t IndexOf(absl::string_view name) const {
    const auto at = std::lower_bound(
        files.begin(), files.end(), name,
        [](const FolderFile& file, absl::string_view wanted) { return file.name < wanted; });
    return at != files.end() && at->name == name ? at - files.begin() : files.size();
  }
};

class Uploads::Incoming final : public IncomingFile {
 public:
  Incoming(Uploads* uploads, std::shared_ptr<Upload> upload, size_t index)
      : uploads_(*uploads), upload_(std::move(upload)), index_(index) {}

  ~Incoming() override {
    absl::MutexLock lock(&uploads_.mutex_);
    part().busy = false;
    uploads_.Touch(*upload_);
  }

  // Opens the file and digests the bytes that are already there.
  absl::Status Open() {
    FileSystem& fs = *uploads_.fs_;
    const std::string path = JoinPath(uploads_.PathOf(*upload_), wanted().name);
    absl::StatusOr<std::unique_ptr<File>> file = fs.Open(path);
    if (absl::IsNotFound(file.status())) file = fs.Create(path);
    LH_RETURN_IF_ERROR(file.status());
    file_ = *std::move(file);
    LH_RETURN_IF_ERROR(AddFileTo(part().sha, *file_, part().hashed, bytes()));
    part().hashed = bytes();
    return absl::OkStatus();
  }

  // Only this object changes it.
  int64_t bytes() const override ABSL_NO_THREAD_SAFETY_ANALYSIS { return part().received.bytes; }

  absl::Status Append(absl::Span<const absl::string_view> pieces) override {
    int64_t size = 0;
    for (const absl::string_view piece : pieces) size += static_cast<int64_t>(piece.size());
    if (size == 0) return absl::OkStatus();
    const int64_t at = bytes(), end = at + size;
    if (end > wanted().bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(wanted().name, " has ", wanted().bytes, " bytes, but more were received"));
    }
    absl::Status written;
    uploads_.team_.Both([&] { written = Write(pieces, at); }, [&] { Hash(pieces); });
    if (!written.ok()) {
      // The digest has bytes that the file may lack.
      part().sha = Sha256();
      part().hashed = 0;
      return written;
    }
    part().hashed = end;
    WriteBehindWholeSpans(*file_, at, end);
    SetReceived({.bytes = end});
    return absl::OkStatus();
  }

  absl::StatusOr<Ended> Finish() override {
    if (bytes() < wanted().bytes) return Ended{.file = {.bytes = bytes()}};
    if (part().sha.Hex() != wanted().sha256) {
      LH_RETURN_IF_ERROR(Drop());
      return absl::DataLossError(absl::StrCat(
          wanted().name, " does not match its announced digest; the received bytes are discarded"));
    }
    if (const absl::Status synced = file_->SyncData(); !synced.ok()) {
      // Bytes written since an earlier sync may be lost.
      (void)Drop();
      return synced;
    }
    absl::MutexLock lock(&uploads_.mutex_);
    part().received.verified = true;
    if (upload_->verified()) LH_RETURN_IF_ERROR(uploads_.Publish(*upload_));
    return Ended{.file = part().received, .complete = upload_->whole};
  }

 private:
  absl::Status Write(absl::Span<const absl::string_view> pieces, int64_t at) {
    for (const absl::string_view piece : pieces) {
      LH_RETURN_IF_ERROR(file_->WriteAt(at, piece));
      at += static_cast<int64_t>(piece.size());
    }
    return absl::OkStatus();
  }
  void Hash(absl::Span<const absl::string_view> pieces) {
    for (const absl::string_view piece : pieces) part().sha.Update(piece);
  }

  const FolderFile& wanted() const { return upload_->files[index_]; }
  Upload::Part& part() const { return upload_->parts[index_]; }

  void SetReceived(const ReceivedFile& received) {
    absl::MutexLock lock(&uploads_.mutex_);
    part().received = received;
  }

  absl::Status Drop() {
    const absl::Status truncated = file_->Truncate(0);
    part().sha = Sha256();
    part().hashed = 0;
    SetReceived({});
    return truncated;
  }

  Uploads& uploads_;
  const std::shared_ptr<Upload> upload_;
  const size_t index_;
  std::unique_ptr<File> file_;
};

Uploads::Uploads(FileSystem* fs, const Clock* clock, const Options& options)
    : fs_(fs), clock_(clock), options_(options), opened_(clock->Now()) {}
Uploads::~Uploads() = default;

absl::StatusOr<std::unique_ptr<Uploads>> Uploads::Open(FileSystem* fs, const Clock* clock,
                                                       const Options& options,
                                                       std::vector<std::string>* troubles) {
  std::unique_ptr<Uploads> uploads(new Uploads(fs, clock, options));
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListIfThere(*fs, UploadsFolder(options.data_dir)));
  for (const std::string& name : names) {
    const absl::Status loaded = uploads->Load(name);
    if (!loaded.ok() && troubles != nullptr) troubles->emplace_back(loaded.message());
  }
  return uploads;
}

absl::Status Uploads::Load(const std::string& name) {
  const std::string folder = UploadFolder(options_.data_dir, name);
  const std::string id(name.substr(0, name.find('.')));
  const std::string kind = name.substr(id.size());
  if (!IsSha256Hex(id) || (!kind.empty() && kind != kPartial && kind != kRemoved))
    return absl::OkStatus();
  const bool whole = kind.empty();
  // A crash came while it was made, or the disk failed.
  const auto remove_damaged = [&](absl::string_view what) -> absl::Status {
    LH_RETURN_IF_ERROR(RemoveFolder(*fs_, folder));
    if (!whole) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("the upload ", folder, " was damaged and was removed: ", what));
  };
  absl::MutexLock lock(&mutex_);
  if (kind == kRemoved || uploads_.contains(id)) return RemoveFolder(*fs_, folder);
  absl::StatusOr<StoredList> list = ReadList(*fs_, folder, id);
  if (absl::IsNotFound(list.status()) || absl::IsDataLoss(list.status()))
    return remove_damaged(list.status().message());
  LH_RETURN_IF_ERROR(list.status());
  std::shared_ptr<Upload> upload = Upload::Of(id, std::move(list->files));
  upload->touched = upload->written = std::min(list->touched, clock_->Now());
  upload->whole = whole;
  for (size_t i = 0; i < upload->files.size(); ++i) {
    LH_ASSIGN_OR_RETURN(const int64_t size, SizeOf(*fs_, JoinPath(folder, upload->files[i].name)));
    if (whole && size != upload->files[i].bytes)
      return remove_damaged(absl::StrCat(upload->files[i].name, " has ", size, " bytes instead of ",
                                         upload->files[i].bytes));
    // A file that is longer than announced is sent again from its beginning.
    const int64_t bytes = size > upload->files[i].bytes ? 0 : size;
    upload->parts[i].received = {.bytes = bytes, .verified = whole};
  }
  uploads_[id] = std::move(upload);
  return absl::OkStatus();
}

std::string Uploads::PathOf(const Upload& upload) const {
  return absl::StrCat(UploadFolder(options_.data_dir, upload.id), upload.whole ? "" : kPartial);
}

absl::Status Uploads::WriteList(Upload& upload) {
  LH_RETURN_IF_ERROR(WriteFileAtomically(*fs_, JoinPath(PathOf(upload), kListFile),
                                         ListText({upload.touched, upload.files})));
  upload.written = upload.touched;
  return absl::OkStatus();
}

absl::Status Uploads::Make(Upload& upload) {
  const std::string folder = PathOf(upload);
  upload.touched = clock_->Now();
  LH_RETURN_IF_ERROR(CreateDirs(*fs_, UploadsFolder(options_.data_dir)));
  absl::Status made = CreateDirs(*fs_, folder);
  if (made.ok()) made = WriteList(upload);
  if (!made.ok()) (void)RemoveFolder(*fs_, folder);
  return made;
}

absl::Status Uploads::Publish(Upload& upload) {
  const std::string partial = PathOf(upload);
  LH_RETURN_IF_ERROR(fs_->SyncDir(partial));
  const std::string folder = UploadFolder(options_.data_dir, upload.id);
  // There is one if it could not be read at the start.
  LH_RETURN_IF_ERROR(RemoveFolder(*fs_, folder));
  LH_RETURN_IF_ERROR(fs_->Rename(partial, folder));
  upload.whole = true;
  return fs_->SyncDir(UploadsFolder(options_.data_dir));
}

void Uploads::Touch(Upload& upload) {
  upload.touched = clock_->Now();
  // Only a restart needs the stored time, so a failed write (full disk) does no harm.
  if (upload.touched - upload.written >= kUsedNow && uploads_.contains(upload.id))
    (void)WriteList(upload);
}

int64_t Uploads::Sum() const {
  int64_t sum = 0;
  for (const auto& [id, upload] : uploads_) sum += upload->bytes;
  return sum;
}

int64_t Uploads::Files() const {
  int64_t files = 0;
  for (const auto& [id, upload] : uploads_) files += static_cast<int64_t>(upload->files.size());
  return files;
}

Uploads::Counts Uploads::counts() const {
  absl::MutexLock lock(&mutex_);
  Counts counts{.bytes = Sum()};
  for (const auto& [id, upload] : uploads_) ++(upload->whole ? counts.whole : counts.partial);
  return counts;
}

absl::Status Uploads::CheckRoom(const Upload& upload, bool known) const {
  if (options_.bytes_max == 0) {
    return absl::FailedPreconditionError(
        "this coordinator accepts no uploads (its --upload-gib is 0)");
  }
  if (upload.bytes > options_.bytes_max) {
    return absl::FailedPreconditionError(
        absl::StrCat("the folder has ", BytesText(upload.bytes), ", and this coordinator accepts ",
                     BytesText(options_.bytes_max), " in all (its --upload-gib)"));
  }
  if (!known && Sum() > options_.bytes_max - upload.bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the folder has ", BytesText(upload.bytes), "; other uploads have ",
                     BytesText(Sum()), " of the ", BytesText(options_.bytes_max),
                     " that this coordinator accepts (its --upload-gib)"));
  }
  const auto files = static_cast<int64_t>(upload.files.size());
  if (!known && Files() > options_.files_max - files) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the folder has ", files, " files; other uploads have ", Files(), " of the ",
                     options_.files_max, " that this coordinator accepts"));
  }
  const int64_t missing = upload.missing();
  if (missing == 0) return absl::OkStatus();
  return CheckDiskRoom(*fs_, options_.data_dir, "the folder", missing, options_.free_min);
}

Uploads::ById::iterator Uploads::OldestUnneeded(const std::string& but, absl::Duration unused) {
  const absl::Time now = clock_->Now();
  absl::MutexLock lock(&needed_mutex_);
  auto oldest = uploads_.end();
  for (auto at = uploads_.begin(); at != uploads_.end(); ++at) {
    const Upload& upload = *at->second;
    const bool may = needed_.has_value() && !needed_->contains(at->first) && at->first != but &&
                     !upload.busy() && now - std::max(upload.touched, opened_) >= unused;
    if (may && (oldest == uploads_.end() || upload.touched < oldest->second->touched)) oldest = at;
  }
  return oldest;
}

absl::StatusOr<std::string> Uploads::TakeOut(ById::iterator at) {
  const std::string to = absl::StrCat(UploadFolder(options_.data_dir, at->first), kRemoved);
  LH_RETURN_IF_ERROR(RemoveFolder(*fs_, to));
  LH_RETURN_IF_ERROR(fs_->Rename(PathOf(*at->second), to));
  uploads_.erase(at);
  LH_RETURN_IF_ERROR(fs_->SyncDir(UploadsFolder(options_.data_dir)));
  return to;
}

absl::StatusOr<Uploads::Prepared> Uploads::Prepare(const std::vector<FolderFile>& files) {
  LH_RETURN_IF_ERROR(CheckFolderFiles(files));
  const std::string id = DigestOfFiles(files);
  while (true) {
    std::string removed;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = uploads_.find(id);
      const bool known = found != uploads_.end();
      const std::shared_ptr<Upload> upload = known ? found->second : Upload::Of(id, files);
      const absl::Status room = CheckRoom(*upload, known);
      if (room.ok()) {
        if (!known) LH_RETURN_IF_ERROR(Make(*upload));
        uploads_[id] = upload;
        if (!upload->whole && upload->verified()) LH_RETURN_IF_ERROR(Publish(*upload));
        Touch(*upload);
        Prepared prepared{.complete = upload->whole};
        for (const FolderFile& file : files)
          prepared.files.push_back(upload->parts[upload->IndexOf(file.name)].received);
        return prepared;
      }
      const auto oldest = OldestUnneeded(id, kUsedNow);
      if (!absl::IsResourceExhausted(room) || oldest == uploads_.end()) return room;
      LH_ASSIGN_OR_RETURN(removed, TakeOut(oldest));
    }
    LH_RETURN_IF_ERROR(RemoveFolder(*fs_, removed));
  }
}

absl::StatusOr<std::unique_ptr<IncomingFile>> Uploads::Receive(const std::string& upload,
                                                               const std::string& file,
                                                               int64_t offset) {
  std::unique_ptr<Incoming> incoming;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = uploads_.find(upload);
    const size_t index = found == uploads_.end() ? 0 : found->second->IndexOf(file);
    if (found == uploads_.end() || index == found->second->files.size())
      return absl::NotFoundError("the upload was not prepared, or has no such file");
    Upload::Part& part = found->second->parts[index];
    if (part.busy)
      return absl::UnavailableError(absl::StrCat("another client is sending ", file, " now"));
    if (part.received.verified || part.received.bytes != offset) {
      return absl::OutOfRangeError(
          absl::StrCat(file, " has ", part.received.bytes,
                       " bytes on the coordinator, so the upload cannot continue at ", offset));
    }
    part.busy = true;
    incoming = std::make_unique<Incoming>(this, found->second, index);
  }
  LH_RETURN_IF_ERROR(incoming->Open());
  return incoming;
}

std::optional<std::string> Uploads::Find(const std::string& upload) {
  absl::MutexLock lock(&mutex_);
  const auto found = uploads_.find(upload);
  if (found == uploads_.end() || !found->second->whole) return std::nullopt;
  Touch(*found->second);
  return PathOf(*found->second);
}

void Uploads::SetNeeded(std::set<std::string> needed) {
  absl::MutexLock lock(&needed_mutex_);
  needed_ = std::move(needed);
}

std::vector<std::string> Uploads::Sweep() {
  std::vector<std::string> swept;
  while (true) {
    absl::StatusOr<std::string> folder;
    {
      absl::MutexLock lock(&mutex_);
      const auto oldest = OldestUnneeded("", options_.keep);
      if (oldest == uploads_.end()) return swept;
      const std::string id = oldest->first;
      folder = TakeOut(oldest);
      if (!folder.ok()) return swept;
      swept.push_back(id);
    }
    if (!RemoveFolder(*fs_, *folder).ok()) return swept;
  }
}

std::vector<std::string> CheckUploads(FileSystem& fs, const std::string& data_dir,
                                      int64_t* uploads) {
  const auto names = ListIfThere(fs, UploadsFolder(data_dir));
  if (!names.ok()) return {std::string(names.status().message())};
  std::vector<std::string> findings;
  for (const std::string& name : *names) {
    if (!IsSha256Hex(name)) continue;
    ++*uploads;
    const std::string folder = UploadFolder(data_dir, name);
    const absl::StatusOr<StoredList> list = ReadList(fs, folder, name);
    if (!list.ok()) {
      findings.emplace_back(list.status().message());
      continue;
    }
    for (const FolderFile& wanted : list->files) {
      const std::string path = JoinPath(folder, wanted.name);
      const absl::StatusOr<std::unique_ptr<File>> file = fs.Open(path);
      Sha256 sha;
      const absl::StatusOr<int64_t> size = file.ok() ? (*file)->Size() : file.status();
      const absl::Status read = size.ok() ? AddFileTo(sha, **file, 0, *size) : size.status();
      if (!read.ok()) findings.emplace_back(read.message());
      if (read.ok() && sha.Hex() != wanted.sha256)
        findings.push_back(absl::StrCat(path, " is damaged: its SHA-256 differs"));
    }
  }
  return findings;
}

}  // namespace longhaul
