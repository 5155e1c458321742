// longhaul-worker: the agent of a node. Flags, signals, the log, and the order of the start.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/exit_code.h"
#include "common/base/file_limit.h"
#include "common/base/mutex_checks.h"
#include "common/base/stop_signals.h"
#include "common/base/thread_limit.h"
#include "common/command_line/output_end.h"
#include "common/command_line/standard_files.h"
#include "common/command_line/stop_deadline.h"
#include "common/io/slow_operations.h"
#include "common/rpc/allocator.h"
#include "common/rpc/grpc_library.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/protobuf_log.h"
#include "worker/agent/agent.h"
#include "worker/agent/flags.h"
#include "worker/agent/log_ring.h"
#include "worker/agent/machine_figures.h"
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
  options.log =
      Logger({.program = "longhaul-worker",
              .level = flags.log_level,
              .format = text ? LogFormat::kText : LogFormat::kJson,
              .on_line = [ring = options.log_ring](absl::string_view line) { ring->Add(line); }})
          .With({.pool = options.pool});
}

// After the ranks have had their time to drain: for killing what is left of them and for leaving,
// and for an end that a disk holds up. Service managers wait for 15 s.
constexpr absl::Duration kEndPatience = absl::Seconds(13), kStuckPatience = absl::Seconds(3);
// Once the agent has left.
constexpr absl::Duration kRestPatience = absl::Seconds(3);
// Something that has lasted for so long when the end is late holds it up.
constexpr absl::Duration kStands = absl::Seconds(2);

// What the thread of the signals, and the one that looks at the disk, need. They live as long as
// the process.
struct Watched {
  absl::Mutex mutex;
  Agent* agent ABSL_GUARDED_BY(mutex) = nullptr;
  bool asked_to_stop ABSL_GUARDED_BY(mutex) = false;
  std::shared_ptr<SlowOperations> operations;

  void Stop() ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    asked_to_stop = true;
    if (agent != nullptr) agent->Drain();
  }
  // Null: it has ended.
  void SetAgent(Agent* now) ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    agent = now;
    if (agent != nullptr && asked_to_stop) agent->Drain();
  }
  std::string Stands() ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    if (agent != nullptr) return agent->Stands(kStands);
    return operations->Oldest(kStands, [](absl::string_view) { return true; });
  }
};

// SIGTERM and SIGINT drain. A second signal ends the program at once.
StopDeadline& HandleSignals(Watched& watched, const sigset_t& signals,
                            const AgentOptions& options) {
  return StopDeadline::Start(signals, {.patience = options.drain + kEndPatience,
                                       .stuck_patience = options.drain + kStuckPatience,
                                       .stands = [&watched] { return watched.Stands(); },
                                       .on_stop = [&watched] { watched.Stop(); },
                                       .log = options.log});
}

// Returns the exit code of the program.
int RunWorker(WorkerFlags flags) {
  AgentOptions options = std::move(flags.agent);
  StartLog(flags, options);
  for (const std::string& line : flags.misspelt) options.log.Warning(line);
  if (const absl::Status able =
          CheckThreads(AgentThreadsNeeded(options.ranks, flags.site.threads.value_or(1)));
      !able.ok()) {
    options.log.Error(
        absl::StrCat(able.message(), "; fewer --ranks or --threads need fewer of them"));
    return StartExitCode(able);
  }
  // For the ranks: each file of their data stays open.
  RaiseFileLimit();
  const int files = std::max(AgentFilesNeeded(options.ranks), RankFilesNeeded(options.ranks));
  if (const absl::Status able = CheckFiles(files); !able.ok()) {
    options.log.Error(absl::StrCat(able.message(), "; fewer --ranks need fewer of them"));
    return StartExitCode(able);
  }
  SendProtobufLogTo(options.log);
  SendGrpcLogTo(options.log);
  signal(SIGPIPE, SIG_IGN);
  SkipLockCycleSearch();
  TuneAllocatorForBulk();
  const sigset_t signals = BlockStopSignals();
  auto& watched = *new Watched;
  watched.operations = std::make_shared<SlowOperations>(SlowOperations::Options{
      .tell = [log = options.log](const std::string& line) { log.Warning(line); }});
  watched.operations->Watch();
  options.operations = watched.operations;
  StopDeadline& deadline = HandleSignals(watched, signals, options);
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
  FindMachineFigures(flags.measure, options);
  const auto agent = Agent::Start(options);
  if (!agent.ok()) {
    options.log.Error(agent.status().message());
    return StartExitCode(agent.status());
  }
  watched.SetAgent(agent->get());
  const absl::Status refused = (*agent)->Run();
  watched.SetAgent(nullptr);
  // Curves may still be written.
  deadline.EndWithin(kRestPatience);
  if (refused.ok()) return 0;
  options.log.Error(refused.message());
  return kExitRefused;
}

// Likewise. Nothing is kept.
int ShowMeasured(WorkerFlags flags) {
  AgentOptions options = std::move(flags.agent);
  // What is wrong is said once, below.
  options.log = Logger({.program = "longhaul-worker", .level = LogLevel::kError});
  const auto fail = [&](const absl::Status& status) {
    options.log.Error(status.message());
    return StartExitCode(status);
  };
  if (const absl::Status able = PrepareCores(flags.site, options); !able.ok()) return fail(able);
  // Where workers are not to measure when they start, this command still does.
  const absl::Duration limit = flags.measure > absl::ZeroDuration() ? flags.measure : kMeasureMax;
  const absl::StatusOr<v1::HostFigures> figures = MeasureMachine(options, limit);
  if (!figures.ok()) return fail(figures.status());
  std::cout << (flags.measures_as_json ? FiguresJson(*figures) : FiguresText(*figures));
  return ExitAfterOutput(0, std::cout, std::cerr);
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  longhaul::KeepStandardFiles();
  longhaul::IgnoreFileSizeSignal();
  longhaul::ShareFilesWithGroupZero();
  int exit_code = 0;
  std::optional<longhaul::WorkerFlags> flags = longhaul::ParseWorkerFlags(argc, argv, &exit_code);
  if (!flags.has_value()) return longhaul::ExitAfterOutput(exit_code, std::cout, std::cerr);
  if (flags->measures) longhaul::EndProgram(longhaul::ShowMeasured(*std::move(flags)));
  longhaul::EndProgram(longhaul::RunWorker(*std::move(flags)));
}
