// longhaul-worker: the agent of a node.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/host_port.h"
#include "common/base/mutex_checks.h"
#include "common/base/names.h"
#include "common/base/program_beside.h"
#include "common/base/status_macros.h"
#include "common/device/cuda_module.h"
#include "common/rpc/allocator.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/protobuf_log.h"
#include "worker/agent/agent.h"
#include "worker/agent/in_pool_address.h"
#include "worker/agent/log_stream.h"
#include "worker/agent/node_identity.h"
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

// What no retry mends, before anybody is asked.
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

// How the pool's other nodes reach this one, and know it.
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

// SIGTERM and SIGINT drain; a second one ends at once.
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
  std::string device = "cpu", log_format = "auto", return_within = "10m";
  std::optional<int> nodes, node;
  double drain_seconds = 30, progress_timeout = 60;
  CLI::App app{
      "The agent of a pool's node: joins a coordinator, runs the pool's ranks. It only dials out."};
  app.add_option("--coordinator", options.coordinator, "HOST:PORT of the coordinator")
      ->envname("LONGHAUL_COORDINATOR");
  app.add_option("--pool", options.pool, "name of the pool: 1 to 63 of [a-z0-9-]")
      ->required()
      ->envname("LONGHAUL_POOL");
  app.add_option("--ranks", options.ranks,
                 "rank processes of this node (default 1); a pool has at most 256")
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
  app.add_option("--threads", options.threads, "threads of a rank (default: cores / ranks)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--device", device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--bulk-channels", options.bulk_channels,
                 "connections of a rank for fragments (default: 1 near the coordinator, else by "
                 "--link-mbps and the measured round trip, 4 to 16)")
      ->check(CLI::Range(1, 256));
  app.add_option(
         "--link-mbps", options.link_mbps,
         "bandwidth between this pool and the coordinator in Mbit/s (default 1000). Where the "
         "round trip is long, the ranks together send a little less than this, unless "
         "--bulk-channels is given")
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
  app.add_option("--http-listen", options.http_listen,
                 "HOST:PORT of /metrics, /healthz and /readyz, as 127.0.0.1:7072 (default: none)")
      ->envname("LONGHAUL_HTTP_LISTEN");
  app.add_option("--drain-seconds", drain_seconds,
                 "after SIGTERM, how long the ranks have to finish their step and send what they "
                 "owe (default 30)")
      ->check(CLI::Range(0.0, 86400.0))
      ->envname("LONGHAUL_DRAIN_SECONDS");
  app.add_option("--return-within", return_within,
                 "after SIGTERM, how long the pool's place in its job is to be kept, as 10m or 90s "
                 "(default 10m; at most what the coordinator grants)")
      ->envname("LONGHAUL_RETURN_WITHIN");
  app.add_option("--progress-timeout", progress_timeout,
                 "seconds without progress after which the ranks are ended and started again "
                 "(default 60); not while they wait for the coordinator")
      ->check(CLI::Range(2.0, 86400.0))
      ->envname("LONGHAUL_PROGRESS_TIMEOUT");
  app.add_option("--progress-factor", options.progress.factor,
                 "but never before so many times the usual time of a step (default 20)")
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
    return app.exit(error) == 0 ? 0 : 4;
  }
  const auto level = longhaul::ParseLogLevel(options.log_level);
  const auto format = longhaul::ParseLogFormat(log_format);
  if (!level.ok() || !format.ok()) {
    std::cerr << (level.ok() ? format.status() : level.status()).message() << "\n";
    return 4;
  }
  options.drain = absl::Seconds(drain_seconds);
  options.progress.at_least = absl::Seconds(progress_timeout);
  if (!absl::ParseDuration(return_within, &options.return_within) ||
      options.return_within < absl::ZeroDuration() || options.return_within > absl::Hours(8760)) {
    std::cerr << "--return-within: '" << return_within << "' is not a time like 10m or 90s\n";
    return 4;
  }
  if (options.work_dir.empty()) options.work_dir = longhaul::WorkFolder(options.data_dir);
  if (options.threads == 0)
    options.threads = std::max<int>(1, std::thread::hardware_concurrency() / options.ranks);
  options.device = device == "cuda" ? longhaul::v1::CUDA : longhaul::v1::CPU;
  // Never destroyed: threads may log until the process ends.
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
    return 4;
  }
  options.capabilities = longhaul::CapabilitiesOn(options.device);

  longhaul::SendProtobufLogTo(options.log);
  longhaul::SendGrpcLogTo(options.log);
  signal(SIGPIPE, SIG_IGN);
  longhaul::SkipLockCycleSearch();
  longhaul::TuneAllocatorForBulk();
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals,
                  nullptr);  // Before any other thread: all of them inherit it.
  const auto tls = longhaul::LoadTlsIfGiven(options.tls_files);
  if (!tls.ok()) {
    options.log.Error(tls.status().message());
    return absl::IsUnauthenticated(tls.status()) ? 2 : 4;
  }
  options.tls = *tls;
  const auto agent = Agent::Start(options);
  if (!agent.ok()) {
    options.log.Error(agent.status().message());
    return 4;
  }
  longhaul::HandleSignals(**agent, signals).detach();
  const absl::Status refused = (*agent)->Run();
  if (refused.ok()) return 0;
  options.log.Error(refused.message());
  return 2;
}
