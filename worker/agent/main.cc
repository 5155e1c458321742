// longhaul-worker: the agent of a node.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/exit_code.h"
#include "common/base/host_port.h"
#include "common/base/mutex_checks.h"
#include "common/base/names.h"
#include "common/base/program_beside.h"
#include "common/base/status_macros.h"
#include "common/device/cuda_module.h"
#include "common/logging/flag_error.h"
#include "common/rpc/allocator.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/protobuf_log.h"
#include "worker/agent/agent.h"
#include "worker/agent/in_pool_address.h"
#include "worker/agent/log_stream.h"
#include "worker/agent/node_identity.h"
#include "worker/cores/busy_cores.h"
#include "worker/cores/host_cores.h"
#include "worker/cores/rank_cores.h"
#include "worker/rank/capabilities.h"

namespace longhaul {
namespace {

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

std::string WorkFolder(const std::string& data_dir) {
  if (access(data_dir.c_str(), W_OK) == 0) return data_dir + "/.longhaul";
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  return (error ? "/tmp" : folder.string()) + "/longhaul-work";
}

// Checks, before the worker joins, for errors that no retry can correct.
absl::Status CheckSite(const Agent::Options& options) {
  if (!IsName(options.pool)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--pool: '", options.pool, "' is not ", kNameForm));
  }
  if (const absl::Status address = CheckAddress(options.coordinator); !address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--coordinator: ", address.message()));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(options.data_dir, error)) {
    return absl::NotFoundError(
        absl::StrCat("--data-dir: ", options.data_dir, " is no folder on this machine"));
  }
  if (!options.state_dir.empty() && (!std::filesystem::is_directory(options.state_dir, error) ||
                                     access(options.state_dir.c_str(), W_OK) != 0)) {
    return absl::NotFoundError(absl::StrCat("--state-dir: ", options.state_dir,
                                            " is no folder that can be written on this machine"));
  }
  if (!options.track_dir.empty() && (!std::filesystem::is_directory(options.track_dir, error) ||
                                     access(options.track_dir.c_str(), W_OK) != 0)) {
    return absl::NotFoundError(absl::StrCat("--track-dir: ", options.track_dir,
                                            " is no folder that can be written on this machine"));
  }
  if (!std::filesystem::is_regular_file(options.rank_program, error) ||
      access(options.rank_program.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("--rank-program: ", options.rank_program, " is no program that can be run"));
  }
  if (options.device != v1::CUDA) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(const int devices, CudaDeviceCount());
  if (devices >= options.ranks) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--device cuda: ", options.ranks, " rank(s) need a GPU each, this machine has ", devices));
}

// Determines how the pool's other nodes reach this one and verify it.
absl::Status PrepareNode(std::optional<int> nodes, std::optional<int> node,
                         Agent::Options& options) {
  LH_ASSIGN_OR_RETURN(
      const NodeIdentity identity,
      IdentifyNode(nodes, node, options.host, [](const char* name) { return std::getenv(name); }));
  options.nodes = identity.nodes;
  options.node = identity.node;
  if (options.nodes == 1) return absl::OkStatus();
  const auto of_flag = [](const absl::Status& status, absl::string_view hint) {
    return absl::Status(status.code(), absl::StrCat("--in-pool-address: ", status.message(), hint));
  };
  if (options.in_pool_address.empty()) {
    absl::StatusOr<std::string> address = AddressTowards(options.coordinator);
    if (!address.ok()) return of_flag(address.status(), "; give the address of this machine");
    options.in_pool_address = *std::move(address);
  }
  absl::StatusOr<std::string> interface = InterfaceOf(options.in_pool_address);
  if (!interface.ok()) return of_flag(interface.status(), "");
  options.in_pool_interface = *std::move(interface);
  if (!options.allow_plaintext_beyond_localhost && !IsLoopback(options.in_pool_address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--in-pool-address: ranks talk in plaintext on ", options.in_pool_address,
        " (Gloo, NCCL), which other machines reach: give --allow-plaintext-beyond-localhost if "
        "that network is private"));
  }
  if (options.tls_files.empty()) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(options.in_pool_name, NameInCertificate(options.tls_files));
  return absl::OkStatus();
}

// Leaves out the cores that other processes use now.
void LeaveBusyCores(HostCores& host, const Logger& log) {
  const absl::StatusOr<int> busy = MeasureBusyCores(host, [] { absl::SleepFor(kBusyWindow); });
  if (!busy.ok())
    return log.Info(absl::StrCat("all cores count as idle: ", busy.status().message()));
  host.busy = *busy;
}

// Gives the ranks their threads and cores. `threads`: for each rank, if given. `bind`: the value of
// --bind-cores.
void PlaceOnCores(std::optional<int> threads, const std::string& bind, Agent::Options& options) {
  const bool cuda = options.device == v1::CUDA;
  const CoreBinding binding = bind == "cores"                            ? CoreBinding::kCores
                              : bind == "none" || (cuda && bind.empty()) ? CoreBinding::kNone
                                                                         : CoreBinding::kNode;
  const bool communicates = !cuda && options.ranks * options.nodes > 1;
  absl::StatusOr<HostCores> host = ReadHostCores();
  if (host.ok()) {
    if (!threads.has_value()) LeaveBusyCores(*host, options.log);
    options.cores = PlaceRanks(*host, options.ranks, binding, communicates);
  } else {
    const int share = static_cast<int>(std::thread::hardware_concurrency()) / options.ranks;
    options.cores.assign(options.ranks, {.threads = std::max(1, share)});
    options.log.Warning(absl::StrCat("ranks are not bound to cores: ", host.status().message()));
  }
  for (RankCores& rank : options.cores) rank.threads = threads.value_or(rank.threads);
  if (host.ok()) options.log.Info(Describe(*host, options.cores));
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

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  using longhaul::Agent;
  Agent::Options options;
  options.coordinator = "localhost:7070";
  options.host = longhaul::HostName();
  options.rank_program = longhaul::ProgramBeside("longhaul-rank");
  options.data_dir = std::filesystem::current_path().string();
  std::string device = "cpu", log_format = "auto", bind;
  std::string return_within = absl::FormatDuration(options.return_within);
  std::string state_every = absl::FormatDuration(options.state_every);
  std::optional<int> nodes, node, threads;
  double drain_seconds = absl::ToDoubleSeconds(options.drain);
  double progress_timeout = absl::ToDoubleSeconds(options.progress.at_least);
  const auto refuse = [&](absl::string_view why) {
    longhaul::SayFlagError("longhaul-worker", argc, argv, why);
    return longhaul::kExitBadArguments;
  };
  CLI::App app{
      "The agent of a pool's node: joins a coordinator, runs the pool's ranks. It only dials out."};
  app.add_option("--coordinator", options.coordinator, "HOST:PORT of the coordinator")
      ->envname("LONGHAUL_COORDINATOR");
  app.add_option("--pool", options.pool, "name of the pool: 1 to 63 of [a-z0-9-]")
      ->required()
      ->envname("LONGHAUL_POOL");
  app.add_option("--ranks", options.ranks,
                 absl::StrCat("rank processes of this node (default ", options.ranks,
                              "); a pool has at most ", longhaul::kRanksMax))
      ->check(CLI::Range(1, longhaul::kRanksMax));
  app.add_option("--nodes", nodes,
                 "machines of this pool, each with a worker of the same flags (default: NNODES of "
                 "the environment, else 1)")
      ->check(CLI::Range(1, longhaul::kRanksMax))
      ->envname("LONGHAUL_NODES");
  app.add_option("--node", node,
                 "number of this node, from 0 (default: NODE_RANK of the environment, else the "
                 "ordinal of a StatefulSet's pod, else the coordinator gives one)")
      ->check(CLI::Range(0, longhaul::kRanksMax - 1))
      ->envname("LONGHAUL_NODE");
  app.add_option("--in-pool-address", options.in_pool_address,
                 "with --nodes: numeric address of this machine that the other nodes reach "
                 "(default: that from which it reaches the coordinator)")
      ->envname("LONGHAUL_IN_POOL_ADDRESS");
  app.add_flag("--allow-plaintext-beyond-localhost", options.allow_plaintext_beyond_localhost,
               "with --nodes: the network between the nodes is private; their ranks talk in "
               "plaintext there (Gloo, NCCL), and without TLS meet in plaintext")
      ->envname("LONGHAUL_ALLOW_PLAINTEXT_BEYOND_LOCALHOST");
  app.add_option("--threads", threads,
                 "threads of a rank (default: its share of the cores that cpuset, affinity, the "
                 "cgroup's quota and other processes leave when the worker starts; with several "
                 "ranks in the pool, and 4 cores or more for each, one less, for the exchange "
                 "between them)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--bind-cores", bind,
                 "where several ranks of this node run: on any core (none), on their NUMA nodes "
                 "(node, the default with --device cpu), each on cores of its own (cores; not "
                 "where several workers share this machine)")
      ->check(CLI::IsMember({"none", "node", "cores"}))
      ->envname("LONGHAUL_BIND_CORES");
  app.add_option("--device", device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--bulk-channels", options.bulk_channels,
                 "connections of a rank for fragments (default: 1 near the coordinator, else by "
                 "--link-mbps and the measured round trip, 4 to 16)")
      ->check(CLI::Range(1, 256));
  app.add_option(
         "--link-mbps", options.link_mbps,
         absl::StrCat("bandwidth between this pool and the coordinator in Mbit/s (default ",
                      options.link_mbps,
                      "). Where the round trip is long, the ranks together send a little less "
                      "than this, unless --bulk-channels is given"))
      ->check(CLI::Range(0.1, 1e6))
      ->envname("LONGHAUL_LINK_MBPS");
  app.add_option("--tls-ca", options.tls_files.ca,
                 "PEM file of the authorities that the coordinator's certificate comes from")
      ->envname("LONGHAUL_TLS_CA");
  app.add_option("--tls-certificate", options.tls_files.certificate,
                 "PEM file of this pool's certificate; with --tls-ca and --tls-key")
      ->envname("LONGHAUL_TLS_CERTIFICATE");
  app.add_option("--tls-key", options.tls_files.key, "PEM file of its private key")
      ->envname("LONGHAUL_TLS_KEY");
  app.add_option("--trace", options.trace,
                 "Write a timeline of each rank's engine to FILE.RANK (Chrome trace format)");
  app.add_option("--track-dir", options.track_dir,
                 "FOLDER for the curves of this pool's jobs, for TensorBoard and as JSON lines: "
                 "JOB-ID/pool-NAME below it (default: none; the coordinator has them, too)")
      ->envname("LONGHAUL_TRACK_DIR");
  app.add_option("--update-rates", options.update_rates,
                 "FILE that keeps the rates that offloaded updates are scheduled by, so that ranks "
                 "measure them once (at most 2 s) and not at every start")
      ->envname("LONGHAUL_UPDATE_RATES");
  app.add_option("--data-dir", options.data_dir,
                 "relative data paths of jobs begin here (default: current folder)")
      ->envname("LONGHAUL_DATA_DIR");
  app.add_option("--work-dir", options.work_dir,
                 "tokens that are made of text are kept here, for later ranks and jobs (default: "
                 ".longhaul in --data-dir where that can be written, else longhaul-work in the "
                 "folder for temporary files)")
      ->envname("LONGHAUL_WORK_DIR");
  app.add_option(
         "--state-dir", options.state_dir,
         "FOLDER for what the inner optimizers of this pool remember (moments and the like), "
         "saved beside training: ranks that begin again go on with it (default: none; they "
         "begin at zero). It takes a copy of that state in memory and three on disk")
      ->envname("LONGHAUL_STATE_DIR");
  app.add_option("--state-every", state_every,
                 "with --state-dir: how often it is saved, as 1m or 30s (default 1m; less often "
                 "where writing takes longer)")
      ->envname("LONGHAUL_STATE_EVERY");
  app.add_option("--http-listen", options.http_listen,
                 "HOST:PORT of /metrics, /healthz and /readyz, as 127.0.0.1:7072 (default: none)")
      ->envname("LONGHAUL_HTTP_LISTEN");
  app.add_option("--tokens", options.tokens_file,
                 "with --http-listen: file of users' tokens, as the coordinator's --tokens; then "
                 "/metrics needs one. Read again while it runs")
      ->envname("LONGHAUL_TOKENS");
  app.add_flag("--insecure", options.insecure,
               "let other machines read --http-listen without a token: for networks that are "
               "private by other means")
      ->envname("LONGHAUL_INSECURE");
  app.add_option("--drain-seconds", drain_seconds,
                 absl::StrCat("after SIGTERM, how long the ranks have to finish their step and "
                              "send what they owe (default ",
                              drain_seconds, ")"))
      ->check(CLI::Range(0.0, 86400.0))
      ->envname("LONGHAUL_DRAIN_SECONDS");
  app.add_option("--return-within", return_within,
                 absl::StrCat("after SIGTERM, how long the pool's place in its job is to be kept, "
                              "as 10m or 90s (default ",
                              return_within, "; at most what the coordinator grants)"))
      ->envname("LONGHAUL_RETURN_WITHIN");
  app.add_option("--progress-timeout", progress_timeout,
                 absl::StrCat("seconds without progress after which the ranks are ended and "
                              "started again (default ",
                              progress_timeout, "); not while they wait for the coordinator"))
      ->check(CLI::Range(2.0, 86400.0))
      ->envname("LONGHAUL_PROGRESS_TIMEOUT");
  app.add_option("--progress-factor", options.progress.factor,
                 absl::StrCat("but not before this many times the usual time of a step (default ",
                              options.progress.factor, ")"))
      ->check(CLI::Range(1.0, 1e6));
  app.add_option("--rank-program", options.rank_program,
                 "path of longhaul-rank (default: beside this program)");
  app.add_option("--log-level", options.log_level, "debug, info, warning or error")
      ->envname("LONGHAUL_LOG_LEVEL");
  app.add_option("--log-format", log_format, "auto, text or json")->envname("LONGHAUL_LOG_FORMAT");
  app.set_version_flag("--version", LONGHAUL_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0 || !longhaul::AsksForJsonLog(argc, argv))
      return app.exit(error) == 0 ? 0 : longhaul::kExitBadArguments;
    return refuse(error.what());
  }
  const auto level = longhaul::ParseLogLevel(options.log_level);
  const auto format = longhaul::ParseLogFormat(log_format);
  if (!level.ok() || !format.ok())
    return refuse((level.ok() ? format.status() : level.status()).message());
  options.drain = absl::Seconds(drain_seconds);
  options.progress.at_least = absl::Seconds(progress_timeout);
  if (!absl::ParseDuration(return_within, &options.return_within) ||
      options.return_within < absl::ZeroDuration() || options.return_within > absl::Hours(8760)) {
    return refuse(
        absl::StrCat("--return-within: '", return_within, "' is not a time like 10m or 90s"));
  }
  if (!absl::ParseDuration(state_every, &options.state_every) ||
      options.state_every <= absl::ZeroDuration() || options.state_every > absl::Hours(8760)) {
    std::cerr << "--state-every: '" << state_every << "' is not a time like 1m or 30s\n";
    return longhaul::kExitBadArguments;
  }
  if (options.work_dir.empty()) options.work_dir = longhaul::WorkFolder(options.data_dir);
  options.device = device == "cuda" ? longhaul::v1::CUDA : longhaul::v1::CPU;
  // Never destroyed, since threads may log until the process ends.
  options.log_ring = new longhaul::LogRing;
  const bool text = *format == longhaul::LogFormat::kText ||
                    (*format == longhaul::LogFormat::kAuto && isatty(STDERR_FILENO) == 1);
  options.log_format = text ? "text" : "json";
  options.log =
      longhaul::Logger({.program = "longhaul-worker",
                        .level = *level,
                        .format = text ? longhaul::LogFormat::kText : longhaul::LogFormat::kJson,
                        .stream = new longhaul::LogStream(options.log_ring)})
          .With({.pool = options.pool});

  absl::Status able = longhaul::CheckSite(options);
  if (able.ok()) able = longhaul::PrepareNode(nodes, node, options);
  if (!able.ok()) {
    options.log.Error(able.message());
    return longhaul::kExitBadArguments;
  }
  longhaul::PlaceOnCores(threads, bind, options);
  options.capabilities = longhaul::CapabilitiesOn(options.device);

  longhaul::SendProtobufLogTo(options.log);
  longhaul::SendGrpcLogTo(options.log);
  signal(SIGPIPE, SIG_IGN);
  longhaul::SkipLockCycleSearch();
  longhaul::TuneAllocatorForBulk();
  // Blocked before any other thread exists, since threads inherit this.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto tls = longhaul::LoadTlsIfGiven(options.tls_files);
  if (!tls.ok()) {
    options.log.Error(tls.status().message());
    return longhaul::TlsExitCode(tls.status());
  }
  options.tls = *tls;
  const auto agent = Agent::Start(options);
  if (!agent.ok()) {
    options.log.Error(agent.status().message());
    return longhaul::kExitBadArguments;
  }
  longhaul::HandleSignals(**agent, signals).detach();
  const absl::Status refused = (*agent)->Run();
  if (refused.ok()) return 0;
  options.log.Error(refused.message());
  return longhaul::kExitRefused;
}
