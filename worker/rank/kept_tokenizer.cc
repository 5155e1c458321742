#include "worker/rank/kept_tokenizer.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/hf/hf_tokenizer.h"
#include "common/io/file_lock.h"
#include "common/io/file_util.h"
#include "common/io/new_file.h"
#include "common/io/posix_filesystem.h"
#include "common/io/sha256.h"
#include "common/rpc/channel.h"
#include "common/rpc/retry.h"
#include "common/rpc/status_conversion.h"
#include "longhaul/v1/sync.grpc.pb.h"
#include "worker/data/token_cache.h"

namespace longhaul {
namespace {

constexpr int kTokenizerFilesMax = 32;
constexpr absl::Duration kLook = absl::Milliseconds(200), kUnusedMax = absl::Hours(7 * 24);
constexpr char kWaits[] = "the job's tokenizer, from the coordinator";

class Download {
 public:
  Download(const KeptTokenizerOptions& options, FileSystem& fs)
      : options_(options),
        fs_(fs),
        clock_(MakeSystemClock()),
        stub_(v1::SyncService::NewStub(MakeChannel(
            {.address = options.coordinator, .tls = options.tls, .small_segments = true}))),
        random_(std::hash<std::string>()(options.incarnation), 0) {}

  // Into a folder that is empty.
  absl::Status Into(const std::string& folder) {
    LH_ASSIGN_OR_RETURN(const v1::GetTokenizerResponse list, Ask("", 0));
    if (list.files().empty() || list.files_size() > kTokenizerFilesMax)
      return absl::DataLossError(absl::StrCat("a list of ", list.files_size(), " files"));
    for (const v1::TokenizerFile& file : list.files()) LH_RETURN_IF_ERROR(Bring(file, folder));
    LH_ASSIGN_OR_RETURN(const std::string digest, DigestOfTokenizer(folder));
    if (digest == options_.digest) return absl::OkStatus();
    return absl::DataLossError("the files are those of another tokenizer");
  }

 private:
  absl::StatusOr<v1::GetTokenizerResponse> Ask(const std::string& file, int64_t offset) {
    v1::GetTokenizerRequest request;
    request.set_job_id(options_.job);
    request.set_pool(options_.pool);
    request.set_incarnation(options_.incarnation);
    request.set_file(file);
    request.set_offset(offset);
    const auto call = [&]() -> absl::StatusOr<v1::GetTokenizerResponse> {
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
      v1::GetTokenizerResponse response;
      LH_RETURN_IF_ERROR(FromGrpcStatus(stub_->GetTokenizer(&context, request, &response)));
      return response;
    };
    // From the newest answer on.
    return Retry({.deadline = clock_->Now() + options_.patience,
                  .clock = clock_.get(),
                  .random = &random_,
                  .retriable =
                      [](const absl::Status& status) {
                        return IsRetriable(status) || absl::IsDeadlineExceeded(status);
                      }},
                 call);
  }

  absl::Status Bring(const v1::TokenizerFile& file, const std::string& folder) {
    if (!IsPlainFileName(file.name()) || file.bytes() < 0 || file.bytes() > kTokenizerFileBytesMax)
      return absl::DataLossError("a file with an impossible name or size");
    absl::StatusOr<NewFile> out = NewFile::Create(&fs_, JoinPath(folder, file.name()));
    if (!out.ok()) return OfWorkDir(out.status());
    Sha256 sha;
    while (out->bytes() < file.bytes()) {
      LH_ASSIGN_OR_RETURN(const v1::GetTokenizerResponse piece, Ask(file.name(), out->bytes()));
      const auto size = static_cast<int64_t>(piece.data().size());
      if (size == 0 || size > file.bytes() - out->bytes())
        return absl::DataLossError(absl::StrCat(file.name(), " has another size than was said"));
      sha.Update(piece.data());
      LH_RETURN_IF_ERROR(OfWorkDir(out->Append(piece.data())));
    }
    if (sha.Hex() != file.sha256())
      return absl::DataLossError(absl::StrCat(file.name(), " has another digest than was said"));
    return OfWorkDir(out->Publish());
  }

  const KeptTokenizerOptions& options_;
  FileSystem& fs_;
  const std::unique_ptr<Clock> clock_;
  const std::unique_ptr<v1::SyncService::Stub> stub_;
  Random random_;
};

bool IsWhole(const std::string& folder, const std::string& digest) {
  const absl::StatusOr<std::string> found = DigestOfTokenizer(folder);
  return found.ok() && *found == digest;
}

// Who reads one that is removed has it open.
void RemoveUnused(const std::string& above, const std::string& digest) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(above, ignored)) {
    const std::string name = entry.path().filename().string();
    const auto used = entry.last_write_time(ignored);
    const auto age = std::filesystem::file_time_type::clock::now() - used;
    if (absl::StartsWith(name, digest) || absl::EndsWith(name, ".lock") ||
        age < absl::ToChronoSeconds(kUnusedMax))
      continue;
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

absl::Status AwaitTurn(FileLock& lock, const KeptTokenizerOptions& options) {
  const absl::Time deadline = SteadyTime() + options.patience;
  for (;;) {
    const absl::StatusOr<bool> ours = lock.Try();
    if (!ours.ok()) return OfWorkDir(ours.status());
    if (*ours) return absl::OkStatus();
    if (SteadyTime() > deadline) {
      return MarkPeerFault(absl::DeadlineExceededError(
          "another process of this machine brings the job's tokenizer, and does not end"));
    }
    absl::SleepFor(kLook);
  }
}

absl::StatusOr<std::string> BringNow(const KeptTokenizerOptions& options) {
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  const std::string above = JoinPath(options.work_dir, "tokenizers");
  const std::string folder = JoinPath(above, options.digest), temporary = folder + ".tmp";
  if (!IsSha256Hex(options.digest))
    return absl::InvalidArgumentError("the digest of the job's tokenizer is malformed");
  LH_RETURN_IF_ERROR(OfWorkDir(CreateDirs(*fs, above)));
  FileLock lock;
  LH_RETURN_IF_ERROR(OfWorkDir(lock.Open(folder + ".lock")));
  LH_RETURN_IF_ERROR(AwaitTurn(lock, options));
  if (!IsWhole(folder, options.digest)) {
    for (const std::string& old : {temporary, folder})
      LH_RETURN_IF_ERROR(OfWorkDir(RemoveFolder(*fs, old)));
    LH_RETURN_IF_ERROR(OfWorkDir(fs->CreateDir(temporary)));
    LH_RETURN_IF_ERROR(Download(options, *fs).Into(temporary));
    LH_RETURN_IF_ERROR(OfWorkDir(fs->SyncDir(temporary)));
    LH_RETURN_IF_ERROR(OfWorkDir(fs->Rename(temporary, folder)));
    LH_RETURN_IF_ERROR(OfWorkDir(fs->SyncDir(above)));
    RemoveUnused(above, options.digest);
  }
  std::error_code ignored;
  std::filesystem::last_write_time(folder, std::filesystem::file_time_type::clock::now(), ignored);
  return folder;
}

}  // namespace

absl::StatusOr<std::string> BringTokenizer(const KeptTokenizerOptions& options) {
  if (options.on_wait) options.on_wait(kWaits);
  absl::StatusOr<std::string> folder = BringNow(options);
  if (options.on_wait) options.on_wait("");
  if (folder.ok()) return folder;
  return WithContext("the tokenizer of the folder with which the job began", folder.status());
}

}  // namespace longhaul
