// longhaul-worker: the agent of a node. Flags, signals, the log, and the order of the start.
#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/file_limit.h"
#include "common/base/mutex_checks.h"
#include "common/base/stop_signals.h"
#include "common/command_line/output_end.h"
#include "common/command_line/standard_files.h"
#include "common/rpc/allocator.h"
#include "common/rpc/grpc_library.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/protobuf_log.h"
#include "worker/agent/agent.h"
#include "worker/agent/flags.h"
#include "worker/agent/log_stream.h"
#include "worker/agent/site.h"

namespace longhaul {
namespace {

// Sets what belongs to the log. It and its ring are never destroyed, since threads may log until
// the process ends.
void StartLog(const WorkerFlags& flags, AgentOptions& options) {
  const bool text = flags.log_format == LogFormat::kText ||
                    (flags.log_format == LogFormat::kAuto && isatty(STDERR_FILENO) == 1);
  options.log_ring = new LogRing;
  options.log_format = text ? "text" : "json";
  options.log = Logger({.program = "longhaul-worker",
                        .level = flags.log_level,
                        .format = text ? LogFormat::kText : LogFormat::kJson,
                        .stream = new LogStream(options.log_ring)})
                    .With({.pool = options.pool});
}

// SIGTERM and SIGINT drain. A second signal ends the program at once.
std::thread HandleSignals(Agent& agent, const sigset_t& signals) {
  return std::thread([&agent, signals] {
    int signal;
    sigwait(&signals, &signal);
    agent.Drain();
    sigwait(&signals, &signal);
    _exit(128 + signal);
  });
}

// Returns the exit code of the program.
int RunWorker(WorkerFlags flags) {
  AgentOptions options = std::move(flags.agent);
  StartLog(flags, options);
  for (const std::string& line : flags.misspelt) options.log.Warning(line);
  SendProtobufLogTo(options.log);
  SendGrpcLogTo(options.log);
  signal(SIGPIPE, SIG_IGN);
  SkipLockCycleSearch();
  TuneAllocatorForBulk();
  // For the ranks: each file of their data stays open.
  RaiseFileLimit();
  const sigset_t signals = BlockStopSignals();
  KeepGrpcLibrary();
  const auto tls = LoadTlsIfGiven(options.tls_files, options.log);
  if (!tls.ok()) {
    options.log.Error(tls.status().message());
    return TlsExitCode(tls.status());
  }
  options.tls = *tls;
  if (const absl::Status able = PrepareSite(flags.site, options); !able.ok()) {
    options.log.Error(able.message());
    return StartExitCode(able);
  }
  const auto agent = Agent::Start(options);
  if (!agent.ok()) {
    options.log.Error(agent.status().message());
    return StartExitCode(agent.status());
  }
  HandleSignals(**agent, signals).detach();
  const absl::Status refused = (*agent)->Run();
  if (refused.ok()) return 0;
  options.log.Error(refused.message());
  return kExitRefused;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  longhaul::KeepStandardFiles();
  int exit_code = 0;
  std::optional<longhaul::WorkerFlags> flags = longhaul::ParseWorkerFlags(argc, argv, &exit_code);
  if (!flags.has_value()) return longhaul::ExitAfterOutput(exit_code, std::cout, std::cerr);
  longhaul::EndProgram(longhaul::RunWorker(*std::move(flags)));
}
