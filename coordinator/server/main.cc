// longhaul-coordinator: flags, signals and the server.
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/escaped_text.h"
#include "common/base/exit_code.h"
#include "common/base/file_limit.h"
#include "common/base/mutex_checks.h"
#include "common/base/status_macros.h"
#include "common/base/stop_signals.h"
#include "common/base/thread_limit.h"
#include "common/command_line/output_end.h"
#include "common/command_line/standard_files.h"
#include "common/command_line/stop_deadline.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "common/io/slow_operations.h"
#include "common/logging/flag_error.h"
#include "common/rpc/allocator.h"
#include "common/rpc/grpc_library.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/protobuf_log.h"
#include "common/rpc/tls.h"
#include "coordinator/server/flags.h"
#include "coordinator/server/server.h"
#include "coordinator/server/start_checks.h"
#include "coordinator/store/check.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/store/sqlite_database.h"

namespace longhaul::coordinator {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(5);
// The end of the whole program. Service managers wait for 30 s, some for 15.
constexpr absl::Duration kEndPatience = absl::Seconds(25), kStuckPatience = absl::Seconds(12);
// Something that has lasted for so long when the end is late holds it up.
constexpr absl::Duration kStands = absl::Seconds(5);

// What the thread of the signals, and the one that looks at the disk, need. They live as long as
// the process.
struct Watched {
  absl::Notification asked_to_stop;
  absl::Mutex mutex;
  const CoordinatorServer* server ABSL_GUARDED_BY(mutex) = nullptr;
  std::shared_ptr<SlowOperations> operations;

  std::string Stands() ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    if (server != nullptr) return server->Stands(kStands);
    return operations->Oldest(kStands, [](absl::string_view) { return true; });
  }
  void SetServer(const CoordinatorServer* now) ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    server = now;
  }
};

Watched& Watch(const sigset_t& signals, const Logger& log) {
  auto& watched = *new Watched;
  watched.operations = std::make_shared<SlowOperations>(
      SlowOperations::Options{.tell = [log](const std::string& line) { log.Warning(line); }});
  watched.operations->Watch();
  StopDeadline::Start(signals, {.patience = kEndPatience,
                                .stuck_patience = kStuckPatience,
                                .stands = [&watched] { return watched.Stands(); },
                                .on_stop = [&watched] { watched.asked_to_stop.Notify(); },
                                .second_exit = kExitFailed,
                                .log = log});
  return watched;
}

// Prints a line for each finding. Returns the exit code of the program.
int Check(const std::string& data_dir) {
  const absl::Status free = CheckNotOpen(DatabasePath(data_dir));
  if (absl::IsUnavailable(free)) {
    std::cerr << "longhaul-coordinator: " << EscapedLine(free.message()) << "\n";
    return kExitFailed;
  }
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  const CheckReport report = CheckDataFolder(*fs, data_dir);
  for (const std::string& note : report.notes) std::cout << "note: " << EscapedLine(note) << "\n";
  for (const std::string& finding : report.findings) std::cout << EscapedLine(finding) << "\n";
  std::cout << report.Summary() << ": "
            << (report.findings.empty() ? "nothing is wrong"
                                        : absl::StrCat(report.findings.size(), " findings"))
            << "\n";
  return report.findings.empty() ? 0 : kExitFailed;
}

absl::Status Adopt(const std::string& data_dir, const Logger& log) {
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<MetaStore> meta, OpenMeta(*fs, data_dir, nullptr));
  LH_ASSIGN_OR_RETURN(const Adoption adoption, AdoptJobs(*fs, data_dir, *meta));
  for (const JobRecord& job : adoption.adopted) {
    log.With({.job = job.name, .job_id = job.id}).Info("adopted");
  }
  for (const std::string& folder : adoption.left_alone) {
    log.Warning(absl::StrCat("not adopted: ", folder));
  }
  return absl::OkStatus();
}

// Logs why the coordinator does not serve. Returns the exit code.
int RefuseToStart(const Logger& log, const absl::Status& status) {
  log.Error(status.message());
  return StartExitCode(status);
}

int Run(Flags flags) {
  const sigset_t signals = BlockStopSignals();
  // The reader of the log may end before the coordinator.
  signal(SIGPIPE, SIG_IGN);
  // A pool has two connections.
  RaiseFileLimit();
  const Logger log(flags.server.log);
  for (const std::string& line : flags.misspelt) log.Warning(line);
  if (const absl::Status threads = CheckThreads(CoordinatorThreadsNeeded()); !threads.ok())
    return RefuseToStart(log, threads);
  if (const absl::Status files = CheckFiles(CoordinatorFilesNeeded()); !files.ok())
    return RefuseToStart(log, files);
  SendProtobufLogTo(log);
  SendGrpcLogTo(log);
  KeepGrpcLibrary();
  Watched& watched = Watch(signals, log);
  flags.server.operations = watched.operations;
  if (!flags.ready_file.empty()) {
    if (const absl::Status ready = CheckReadyFile(flags.ready_file); !ready.ok())
      return RefuseToStart(log, ready);
  }
  absl::StatusOr<std::shared_ptr<const Tls>> tls = LoadTlsIfGiven(flags.tls_files, log);
  if (!tls.ok()) {
    log.Error(tls.status().message());
    return TlsExitCode(tls.status());
  }
  flags.server.tls = *std::move(tls);
  if (flags.adopt) {
    if (const absl::Status adopted = Adopt(flags.server.data_dir, log); !adopted.ok()) {
      return RefuseToStart(log, adopted);
    }
  }
  absl::StatusOr<std::unique_ptr<CoordinatorServer>> server =
      CoordinatorServer::Start(flags.server);
  if (!server.ok()) return RefuseToStart(log, server.status());
  watched.SetServer(server->get());
  const absl::Cleanup forget = [&watched] { watched.SetServer(nullptr); };
  const std::unique_ptr<FileSystem> posix = MakePosixFileSystem();
  const std::unique_ptr<FileSystem> fs =
      MakeWatchedFileSystem(posix.get(), watched.operations.get());
  if (!flags.ready_file.empty()) {
    const absl::Status written = WriteFileAtomically(
        *fs, flags.ready_file,
        absl::StrCat(kReadyMark, (*server)->address(), "\nhttp=", (*server)->http_address(), "\n"));
    if (!written.ok()) return RefuseToStart(log, OfFlag("--ready-file", written));
  }
  const std::string page = (*server)->http_address();
  log.Info(absl::StrCat("serving at ", (*server)->address(),
                        page.empty() ? "" : "; the status page is at ",
                        page.empty()            ? ""
                        : flags.server.http_tls ? "https://"
                                                : "http://",
                        page));
  watched.asked_to_stop.WaitForNotification();
  if (!flags.ready_file.empty()) (void)fs->Remove(flags.ready_file);
  (*server)->Shutdown(kGrace);
  return 0;
}

int Main(int argc, char** argv) {
  int exit_code = 0;
  const std::optional<Flags> flags = ParseFlags(argc, argv, &exit_code);
  if (!flags.has_value()) return exit_code;
  if (flags->check) return Check(flags->server.data_dir);
  return Run(*flags);
}

}  // namespace
}  // namespace longhaul::coordinator

int main(int argc, char** argv) {
  longhaul::KeepStandardFiles();
  longhaul::IgnoreFileSizeSignal();
  longhaul::ShareFilesWithGroupZero();
  longhaul::SkipLockCycleSearch();
  longhaul::TuneAllocatorForBulk();
  longhaul::EndProgram(
      longhaul::ExitAfterOutput(longhaul::coordinator::Main(argc, argv), std::cout, std::cerr));
}
