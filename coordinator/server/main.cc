// longhaul-coordinator: flags, signals, and the server between them.
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/mutex_checks.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "common/rpc/allocator.h"
#include "common/rpc/protobuf_log.h"
#include "common/rpc/tls.h"
#include "coordinator/server/flags.h"
#include "coordinator/server/server.h"

namespace longhaul::coordinator {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(5);

// Blocked in every thread, so that one thread waits for them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void WaitForSignal(const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
}

int Fail(const absl::Status& status) {
  std::cerr << "longhaul-coordinator: " << status.message() << "\n";
  return 1;
}

int Run(Flags flags) {
  const sigset_t signals = BlockSignals();
  SendProtobufLogTo(Logger(flags.server.log));
  absl::StatusOr<std::shared_ptr<const Tls>> tls = LoadTlsIfGiven(flags.tls_files);
  if (!tls.ok()) return Fail(tls.status());
  flags.server.tls = *std::move(tls);
  absl::StatusOr<std::unique_ptr<CoordinatorServer>> server =
      CoordinatorServer::Start(flags.server);
  if (!server.ok()) return Fail(server.status());
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  if (!flags.ready_file.empty()) {
    const absl::Status written =
        WriteFileAtomically(*fs, flags.ready_file,
                            absl::StrCat("grpc=", (*server)->address(),
                                         "\nmetrics=", (*server)->metrics_address(), "\n"));
    if (!written.ok()) return Fail(written);
  }
  std::cerr << "longhaul-coordinator: serving at " << (*server)->address() << "\n";
  WaitForSignal(signals);
  std::thread([signals] {
    WaitForSignal(signals);  // A second one: whoever asks twice does not want to wait.
    std::_Exit(1);
  }).detach();
  if (!flags.ready_file.empty()) (void)fs->Remove(flags.ready_file);
  (*server)->Shutdown(kGrace);
  return 0;
}

}  // namespace
}  // namespace longhaul::coordinator

int main(int argc, char** argv) {
  longhaul::SkipLockCycleSearch();
  longhaul::TuneAllocatorForBulk();
  int exit_code = 0;
  const auto flags = longhaul::coordinator::ParseFlags(argc, argv, &exit_code);
  if (!flags.has_value()) return exit_code;
  if (flags->print_config) {
    std::cout << longhaul::coordinator::ConfigText(*flags);
    return 0;
  }
  return longhaul::coordinator::Run(*flags);
}
