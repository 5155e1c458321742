#include "coordinator/cli/download.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/bytes_text.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/folder_files.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/reader.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"
#include "common/io/sha256.h"
#include "common/rpc/retry.h"
#include "common/rpc/status_details.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/transfer_progress.h"

namespace longhaul::cli {
namespace {

constexpr char kLocal[] = "longhaul.cli/local";
constexpr int64_t kReadBytes = 1 << 20;
// The folder, and what names of its files begin with at the server.
constexpr char kTokenizer[] = "tokenizer";

absl::Status Local(absl::Status status) {
  if (!status.ok()) status.SetPayload(kLocal, absl::Cord());
  return status;
}

class Downloading {
 public:
  Downloading(const CheckpointName& name, const DownloadOptions& options, Client& client,
              FileSystem& fs, const Environment& environment)
      : name_(name),
        options_(options),
        out_(WithoutTrailingSlashes(options.out)),
        partial_(absl::StrCat(out_, ".partial")),
        client_(client),
        fs_(fs),
        environment_(environment) {}

  absl::StatusOr<Downloaded> Run() {
    LH_ASSIGN_OR_RETURN(const bool there, IsThere());
    if (there) return result_;
    LH_RETURN_IF_ERROR(Prepare());
    for (const v1::CheckpointFragment& fragment : manifest_.fragments())
      LH_RETURN_IF_ERROR(FetchVerified(fragment));
    LH_RETURN_IF_ERROR(FetchTokenizer());
    LH_RETURN_IF_ERROR(Local(fs_.SyncDir(partial_)));
    LH_RETURN_IF_ERROR(Local(fs_.Rename(partial_, out_)));
    LH_RETURN_IF_ERROR(Local(fs_.SyncDir(ParentOf(out_))));
    progress_.End();
    return result_;
  }

 private:
  bool IsWanted(const v1::CheckpointManifest& manifest) const {
    const bool job = manifest.job_name() == name_.job || manifest.job_id() == name_.job;
    return job && name_.step.value_or(manifest.step()) == manifest.step();
  }

  void Describe() {
    result_.job = manifest_.job_name();
    result_.step = manifest_.step();
    result_.bytes = 0;
    for (const v1::CheckpointFragment& fragment : manifest_.fragments())
      result_.bytes += FileBytes(fragment);
  }

  // Whether `out` is the checkpoint already.
  absl::StatusOr<bool> IsThere() {
    const auto names = ListIfThere(fs_, out_);
    if (names.ok() && names->empty()) return false;
    absl::StatusOr<v1::CheckpointManifest> manifest = longhaul::ReadManifest(fs_, out_);
    if (!manifest.ok() || !IsWanted(*manifest)) {
      return Local(
          absl::AlreadyExistsError(absl::StrCat(out_, " exists and is not this checkpoint")));
    }
    for (const v1::CheckpointFragment& fragment : manifest->fragments()) {
      const absl::Status sound = VerifyFile(fs_, out_, fragment);
      if (!sound.ok()) return Local(sound);
    }
    manifest_ = *std::move(manifest);
    Describe();
    return true;
  }

  // Gets the manifest: that of an earlier try while the server still has that checkpoint, else the
  // server's.
  absl::Status Prepare() {
    absl::StatusOr<v1::CheckpointManifest> earlier = longhaul::ReadManifest(fs_, partial_);
    if (earlier.ok()) {
      if (!IsWanted(*earlier)) {
        return Local(absl::AlreadyExistsError(
            absl::StrCat(partial_, " contains part of another checkpoint")));
      }
      manifest_ = *std::move(earlier);
      step_ = manifest_.step();
      std::string json;
      const absl::Status still = FetchManifest(&json);
      if (still.ok()) {
        LH_ASSIGN_OR_RETURN(const v1::CheckpointManifest theirs,
                            ManifestFromJson(json, "the server's manifest"));
        if (SameBytes(theirs, manifest_)) return Describe(), absl::OkStatus();
      } else if (!absl::IsNotFound(still) || name_.step.has_value()) {
        return still;
      }
      // Another checkpoint of that step, or the newest is a newer one.
      LH_RETURN_IF_ERROR(Local(RemoveFolder(fs_, JoinPath(partial_, kTokenizer))));
      LH_RETURN_IF_ERROR(Local(RemoveFolder(fs_, partial_)));
    }
    step_ = name_.step.value_or(-1);
    std::string json;
    LH_RETURN_IF_ERROR(FetchManifest(&json));
    LH_ASSIGN_OR_RETURN(manifest_, ManifestFromJson(json, "the server's manifest"));
    step_ = manifest_.step();
    LH_RETURN_IF_ERROR(Local(CreateDirs(fs_, partial_)));
    LH_RETURN_IF_ERROR(Local(WriteFileAtomically(fs_, JoinPath(partial_, kManifestFile), json)));
    Describe();
    return absl::OkStatus();
  }

  static bool SameBytes(const v1::CheckpointManifest& a, const v1::CheckpointManifest& b) {
    return a.job_id() == b.job_id() && a.step() == b.step() &&
           std::equal(a.fragments().begin(), a.fragments().end(), b.fragments().begin(),
                      b.fragments().end(), [](const auto& x, const auto& y) {
                        return x.file() == y.file() && x.elements() == y.elements() &&
                               longhaul::DigestOf(x) == longhaul::DigestOf(y);
                      });
  }

  absl::Status FetchManifest(std::string* json) { return FetchText(kManifestFile, json); }

  absl::Status FetchText(const std::string& file, std::string* text) {
    return Stream(
        file, [text] { return static_cast<int64_t>(text->size()); },
        [&](absl::string_view data) {
          if (text->size() + data.size() > static_cast<size_t>(kManifestBytesMax))
            return absl::DataLossError(absl::StrCat("the server's ", file, " is too large"));
          text->append(data.data(), data.size());
          return absl::OkStatus();
        });
  }

  // The tokenizer that the coordinator keeps of the folder with which the job began, if it does.
  absl::Status FetchTokenizer() {
    const std::string folder = JoinPath(partial_, kTokenizer);
    const auto on_server = [](const std::string& name) {
      return absl::StrCat(kTokenizer, "/", name);
    };
    std::string list;
    const absl::Status listed = FetchText(on_server(kTokenizerListFile), &list);
    if (absl::IsNotFound(listed)) return absl::OkStatus();
    LH_RETURN_IF_ERROR(listed);
    LH_ASSIGN_OR_RETURN(const std::vector<FolderFile> files, ParseListOfFiles(list));
    LH_RETURN_IF_ERROR(Local(RemoveFolder(fs_, folder)));
    LH_RETURN_IF_ERROR(Local(CreateDirs(fs_, folder)));
    for (const FolderFile& file : files)
      LH_RETURN_IF_ERROR(FetchFile(file, on_server(file.name), JoinPath(folder, file.name)));
    return Local(WriteFileAtomically(fs_, JoinPath(folder, kTokenizerListFile), list));
  }

  absl::Status FetchFile(const FolderFile& file, const std::string& name, const std::string& path) {
    absl::StatusOr<std::unique_ptr<File>> out = fs_.Create(path);
    if (!out.ok()) return Local(out.status());
    Sha256 sha;
    int64_t at = 0;
    LH_RETURN_IF_ERROR(Stream(
        name, [&] { return at; },
        [&](absl::string_view data) -> absl::Status {
          if (static_cast<int64_t>(data.size()) > file.bytes - at)
            return Local(absl::DataLossError(absl::StrCat(path, " has more bytes than expected")));
          LH_RETURN_IF_ERROR(Local((*out)->WriteAt(at, data)));
          sha.Update(data);
          at += static_cast<int64_t>(data.size());
          return absl::OkStatus();
        }));
    if (at != file.bytes || sha.Hex() != file.sha256)
      return Local(absl::DataLossError(absl::StrCat(path, " arrived damaged: its digest differs")));
    return Local((*out)->SyncData());
  }

  // Fetches a file again, once, if it came damaged.
  absl::Status FetchVerified(const v1::CheckpointFragment& fragment) {
    absl::Status status = FetchFile(fragment);
    if (absl::IsDataLoss(status) && IsLocal(status)) {
      progress_.Say(absl::StrCat(status.message(), "; downloading it again"));
      LH_RETURN_IF_ERROR(Local(fs_.Remove(JoinPath(partial_, fragment.file()))));
      status = FetchFile(fragment);
    }
    return status;
  }

  absl::Status FetchFile(const v1::CheckpointFragment& fragment) {
    const std::string path = JoinPath(partial_, fragment.file());
    const int64_t size = FileBytes(fragment);
    absl::StatusOr<std::unique_ptr<File>> file = fs_.Open(path);
    if (absl::IsNotFound(file.status())) file = fs_.Create(path);
    if (!file.ok()) return Local(file.status());
    LH_ASSIGN_OR_RETURN(int64_t at, (*file)->Size());
    if (at > size) {
      LH_RETURN_IF_ERROR(Local((*file)->Truncate(0)));
      at = 0;
    }
    Digester digester;
    std::string buffer;
    for (int64_t read = 0; read < at; read += static_cast<int64_t>(buffer.size())) {
      buffer.resize(std::min(kReadBytes, at - read));
      LH_RETURN_IF_ERROR(Local((*file)->ReadExactly(read, absl::MakeSpan(buffer))));
      digester.Update(buffer);
    }
    done_ += at;
    const auto take = [&](absl::string_view data) -> absl::Status {
      if (static_cast<int64_t>(data.size()) > size - at)
        return Local(absl::DataLossError(absl::StrCat(path, " has more bytes than expected")));
      LH_RETURN_IF_ERROR(Local((*file)->WriteAt(at, data)));
      digester.Update(data);
      at += static_cast<int64_t>(data.size());
      WriteBehindWholeSpans(**file, at - static_cast<int64_t>(data.size()), at);
      done_ += static_cast<int64_t>(data.size());
      result_.received += static_cast<int64_t>(data.size());
      progress_.Show("", done_, result_.bytes);
      return absl::OkStatus();
    };
    if (at < size)
      LH_RETURN_IF_ERROR(Stream(
          fragment.file(), [&] { return at; }, take));
    if (at != size || digester.Value() != longhaul::DigestOf(fragment)) {
      done_ -= at;
      return Local(absl::DataLossError(absl::StrCat(path, " arrived damaged: its digest differs")));
    }
    return Local((*file)->SyncData());
  }

  // One file, from `from()` to its end, in as many streams as it takes.
  absl::Status Stream(const std::string& file, const std::function<int64_t()>& from,
                      const std::function<absl::Status(absl::string_view)>& take) {
    absl::Time heard = environment_.clock.Now();
    for (int attempt = 0;;) {
      v1::DownloadCheckpointRequest request;
      request.set_job(name_.job);
      request.set_step(step_);
      request.set_file(file);
      request.set_offset(from());
      bool any = false;
      const absl::Status status = client_.DownloadCheckpoint(
          request,
          InSteadyTime(environment_.clock,
                       std::min(options_.deadline, environment_.clock.Now() + kStreamMax)),
          [&](const v1::DownloadCheckpointResponse& chunk) -> absl::Status {
            if (chunk.offset() != from())
              return absl::InternalError("the server skipped a part of the file");
            // "The newest" may change meanwhile; all files must be of one checkpoint.
            if (step_ < 0) step_ = chunk.step();
            any = answered_ = true;
            return take(chunk.data());
          });
      const absl::Time now = environment_.clock.Now();
      if (status.ok()) {
        progress_.Connected();
        return status;
      }
      if (any) heard = now, attempt = 0;
      if (now >= options_.deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("the download did not finish in time: ", BytesText(done_), " of ",
                         BytesText(result_.bytes), "; run the same command again to resume"));
      }
      const bool again = absl::IsUnavailable(status) || absl::IsCancelled(status) ||
                         absl::IsDeadlineExceeded(status) || RetryDelayOf(status).has_value();
      if (IsLocal(status) || !again || !answered_ || now - heard > kSilentMax) return status;
      progress_.Lost(status, client_.address());
      const absl::Time until = now + absl::Milliseconds(50) + FullJitter({}, attempt++, random_);
      environment_.clock.SleepUntil(std::min(until, options_.deadline));
    }
  }

  const CheckpointName name_;
  const DownloadOptions options_;
  const std::string out_, partial_;
  Client& client_;
  FileSystem& fs_;
  const Environment& environment_;
  Random random_{static_cast<uint64_t>(absl::ToUnixNanos(environment_.clock.Now()))};

  v1::CheckpointManifest manifest_;
  Downloaded result_;
  int64_t step_ = -1;
  int64_t done_ = 0;       // Bytes of the files that are here.
  bool answered_ = false;  // The server has, once.
  TransferProgress progress_{environment_};
};

std::string HintOfLocal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return "free some space, then run the same command again to resume";
    case absl::StatusCode::kAlreadyExists:
      return "remove it, or give another --out";
    case absl::StatusCode::kPermissionDenied:
      return "give an --out that you can write to";
    default:
      return "";
  }
}

}  // namespace

absl::StatusOr<Downloaded> Download(const CheckpointName& name, const DownloadOptions& options,
                                    Client& client, FileSystem& fs,
                                    const Environment& environment) {
  return Downloading(name, options, client, fs, environment).Run();
}

bool IsLocal(const absl::Status& status) { return status.GetPayload(kLocal).has_value(); }

CliError ErrorOfDownload(const absl::Status& status, const std::string& address) {
  CliError error = ErrorOfCall(status, address);
  if (!IsLocal(status)) return error;
  error.exit = ExitOfFiles(status);
  error.hint = HintOfLocal(status);
  return error;
}

}  // namespace longhaul::cli
