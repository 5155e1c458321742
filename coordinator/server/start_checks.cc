#include "coordinator/server/start_checks.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/host_port.h"
#include "common/base/status_macros.h"
#include "common/http/openness.h"
#include "common/http/server.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "common/logging/flag_error.h"
#include "common/rpc/listener.h"
#include "coordinator/store/data_folder.h"

namespace longhaul::coordinator {
namespace {

// What other machines can reach without TLS or without a token must be allowed explicitly, and is
// logged.
absl::Status CheckOpenness(const CoordinatorServerOptions& options, const Logger& log) {
  if (!options.tokens_file.empty() && !options.tls) {
    return absl::InvalidArgumentError(
        "--tokens needs --tls-ca, --tls-certificate and --tls-key: tokens are never sent in "
        "plaintext, and pools are identified by their certificates (longhaul certs init)");
  }
  if (options.allow_token_only && options.tokens_file.empty())
    return absl::InvalidArgumentError("--allow-token-only needs --tokens");
  if (options.http_tls && !options.tls) {
    return absl::InvalidArgumentError(
        "--http-tls needs --tls-ca, --tls-certificate and --tls-key: it uses that certificate");
  }
  LH_ASSIGN_OR_RETURN(const HostPort rpc, ParseHostPort(options.listen));
  if (!options.tls && !IsReachedFromHereAlone(rpc.host)) {
    const std::string open =
        absl::StrCat("--listen ", options.listen,
                     ": plaintext, so anyone who reaches it may submit, cancel, join and read the "
                     "traffic. Give --tls-ca, --tls-certificate and --tls-key "
                     "(longhaul certs init)");
    if (!options.insecure) {
      return absl::InvalidArgumentError(absl::StrCat(
          open, ", listen on localhost, or give --insecure if that network is private"));
    }
    log.Warning(absl::StrCat("INSECURE: ", open));
  } else if (!options.tls && !IsLoopback(rpc.host)) {
    log.Info(absl::StrCat(
        "--listen ", options.listen,
        ": no other machine can reach it, because this name has loopback addresses only"));
  }
  LH_ASSIGN_OR_RETURN(const std::string http,
                      CheckHttpOpenness({.listen = options.http_listen,
                                         .tokens = !options.tokens_file.empty(),
                                         .tls = options.http_tls,
                                         .insecure = options.insecure,
                                         .what = "jobs, pools and metrics"}));
  if (!http.empty()) log.Warning(http);
  return absl::OkStatus();
}

// Folders that the database does not know are logged. If the database knows none of them, it
// belongs to another data folder, and that is an error.
absl::Status CheckFolders(FileSystem& fs, const std::string& data_dir, MetaStore& meta,
                          const Logger& log) {
  LH_ASSIGN_OR_RETURN(const FolderFindings findings, CompareFolders(fs, data_dir, meta));
  if (findings.jobs.empty() && !findings.unknown_folders.empty()) {
    return absl::DataLossError(absl::StrCat(
        DatabasePath(data_dir), " knows no jobs, but there are ", findings.unknown_folders.size(),
        " folders of jobs in ", JobsFolder(data_dir), ", as ", findings.unknown_folders[0],
        ": start with --adopt to add them, or move them away"));
  }
  for (const std::string& folder : findings.unknown_folders) {
    log.Error(absl::StrCat("the database does not know the job of folder ",
                           JobFolder(data_dir, folder),
                           ": start with --adopt to add it, or move it away"));
  }
  for (const JobKey& job : findings.missing_folders) {
    log.With({.job = job.name, .job_id = job.id})
        .Error(absl::StrCat("its folder is missing: ", JobFolder(data_dir, job.id)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOptions(const CoordinatorServerOptions& options, const Logger& log) {
  if (options.data_dir.empty()) return absl::InvalidArgumentError("a data folder is required");
  // Addresses are checked before anything is read or made, so that a mistake has no effects.
  LH_RETURN_IF_ERROR(OfFlag("--listen", ParseHostPort(options.listen).status()));
  if (!options.http_listen.empty())
    LH_RETURN_IF_ERROR(
        OfFlag("--http-listen", HttpServer::OptionsFrom(options.http_listen).status()));
  if (std::error_code error;
      !options.import_dir.empty() && !std::filesystem::is_directory(options.import_dir, error)) {
    return absl::NotFoundError(
        absl::StrCat("--import-dir: ", options.import_dir, " is not a folder on this machine"));
  }
  return CheckOpenness(options, log);
}

absl::Status CheckReadyFile(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  if (!fs::exists(found)) {
    const std::string folder = fs::path(path).parent_path().string();
    if (folder.empty() || fs::is_directory(folder, error)) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("--ready-file: ", path, ": its folder does not exist"));
  }
  if (!fs::is_regular_file(found))
    return absl::InvalidArgumentError(absl::StrCat("--ready-file: ", path, " is not a file"));
  std::string begin(sizeof(kReadyMark) - 1, '\0');
  std::ifstream file(path);
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(file.gcount());
  if (begin.empty() || begin == kReadyMark) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--ready-file: ", path,
                   " has other content, which would be lost: name a file used for nothing else"));
}

absl::StatusOr<std::unique_ptr<MetaStore>> OpenMeta(FileSystem& fs, const std::string& data_dir,
                                                    SlowOperations* operations) {
  const auto unusable = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("--data-dir ", data_dir, ": ", status.message(),
                                                    ": name a folder that this user may write to"));
  };
  if (const absl::Status made = CreateDirs(fs, JobsFolder(data_dir)); !made.ok())
    return unusable(made);
  absl::StatusOr<std::unique_ptr<MetaStore>> meta =
      MetaStore::Open(DatabasePath(data_dir), operations);
  if (absl::IsPermissionDenied(meta.status())) return unusable(meta.status());
  if (absl::IsFailedPrecondition(meta.status()) || absl::IsResourceExhausted(meta.status()))
    return OfFlag(absl::StrCat("--data-dir ", data_dir), meta.status());
  if (!absl::IsUnavailable(meta.status())) return meta;
  return absl::UnavailableError(absl::StrCat("another coordinator uses the data folder ", data_dir,
                                             ": ", meta.status().message(),
                                             ": stop it, or give another --data-dir"));
}

absl::StatusOr<std::unique_ptr<MetaStore>> OpenDatabase(FileSystem& fs, const std::string& data_dir,
                                                        const Logger& log,
                                                        SlowOperations* operations) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<MetaStore> meta, OpenMeta(fs, data_dir, operations));
  if (!CanSyncFolders(JobsFolder(data_dir))) {
    log.Warning(absl::StrCat(
        "--data-dir ", data_dir,
        ": its file system cannot sync folders: a power failure of the machine may lose the names "
        "of new files, and with them jobs, rounds and checkpoints; a local disk does not"));
  }
  LH_RETURN_IF_ERROR(CheckFolders(fs, data_dir, *meta, log));
  return meta;
}

}  // namespace longhaul::coordinator
