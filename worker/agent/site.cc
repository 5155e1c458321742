#include "worker/agent/site.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/compute_environment.h"
#include "common/base/counted.h"
#include "common/base/host_port.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"
#include "common/device/cuda_module.h"
#include "common/logging/flag_error.h"
#include "common/rpc/channel.h"
#include "common/rpc/proxy.h"
#include "worker/agent/in_pool_address.h"
#include "worker/agent/machine_figures.h"
#include "worker/agent/node_identity.h"
#include "worker/cores/busy_cores.h"
#include "worker/cores/host_cores.h"
#include "worker/cores/rank_cores.h"
#include "worker/rank/capabilities.h"

namespace longhaul {
namespace {

// Slurm's name, since its users know that, and several of its nodes may share a machine.
std::string HostName() {
  if (const char* const node = std::getenv("SLURMD_NODENAME"); node != nullptr && *node != '\0')
    return node;
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// `flag` names an optional folder. `making`: the error that an attempt to make it had, if any.
absl::Status CheckWritable(absl::string_view flag, const std::string& folder,
                           const std::error_code& making = {}) {
  std::error_code error;
  if (folder.empty()) return absl::OkStatus();
  const bool is_folder = std::filesystem::is_directory(folder, error);
  if (is_folder && access(folder.c_str(), W_OK) == 0) return absl::OkStatus();
  const int reason = is_folder ? errno : making ? making.value() : error.value();
  return absl::NotFoundError(
      absl::StrCat(flag, ": ", folder, " is not a writable folder on this machine",
                   reason == 0 ? "" : ": ", reason == 0 ? "" : std::strerror(reason)));
}

// Likewise. It is made if it is not there, as the coordinator's --data-dir.
absl::Status MakeWritable(absl::string_view flag, const std::string& folder) {
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  return CheckWritable(flag, folder, error);
}

// Who makes it before us could put links in it, or the tokens of another text.
absl::Status CheckOwn(const std::string& folder) {
  const int making = mkdir(folder.c_str(), 0700) == 0 ? 0 : errno;
  struct stat info;
  const bool there = lstat(folder.c_str(), &info) == 0;
  if (there && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
      (info.st_mode & (S_IWGRP | S_IWOTH)) == 0)
    return absl::OkStatus();
  if (!there && making != 0) {
    return absl::NotFoundError(absl::StrCat(
        "--work-dir: ", folder, " cannot be made: ", std::strerror(making), ": give another one"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("--work-dir: ", folder,
                   " is not a private folder of this user: remove it, or give another one"));
}

absl::Status CheckRankProgram(const AgentOptions& options) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(options.rank_program, error);
  if (!is_file || access(options.rank_program.c_str(), X_OK) != 0) {
    const int reason = is_file ? errno : error.value();
    return absl::NotFoundError(
        absl::StrCat("--rank-program: ", options.rank_program, " is not an executable program",
                     reason == 0 ? "" : ": ", reason == 0 ? "" : std::strerror(reason)));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const SiteChoice& choice, const AgentOptions& options) {
  if (!IsName(options.pool)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--pool: '", options.pool, "' is not ", kNameForm));
  }
  if (const absl::Status address = CheckAddress(options.coordinator); !address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--coordinator: ", address.message()));
  }
  LH_RETURN_IF_ERROR(ProxyOf(options.coordinator).status());
  std::error_code error;
  if (options.data_dir.empty()) {
    return absl::NotFoundError(
        "--data-dir: the current folder was removed or is not readable: start this program in "
        "another folder, or give one");
  }
  if (!std::filesystem::is_directory(options.data_dir, error)) {
    return absl::NotFoundError(
        absl::StrCat("--data-dir: ", options.data_dir, " is not a folder on this machine"));
  }
  if (choice.work_dir_in_temp) {
    LH_RETURN_IF_ERROR(CheckOwn(options.work_dir));
  } else {
    LH_RETURN_IF_ERROR(MakeWritable("--work-dir", options.work_dir));
  }
  LH_RETURN_IF_ERROR(MakeWritable("--state-dir", options.state_dir));
  LH_RETURN_IF_ERROR(MakeWritable("--track-dir", options.track_dir));
  // It would be replaced, also a device.
  if (std::filesystem::exists(options.update_rates, error) &&
      !std::filesystem::is_regular_file(options.update_rates, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--update-rates: ", options.update_rates, " is not a file"));
  }
  if (!options.trace.empty()) {
    const std::string folder = std::filesystem::path(options.trace).parent_path().string();
    LH_RETURN_IF_ERROR(CheckWritable("--trace", folder.empty() ? "." : folder));
  }
  LH_RETURN_IF_ERROR(CheckRankProgram(options));
  if (options.device != v1::CUDA) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(const int devices, OfFlag("--device cuda", CudaDeviceCount()));
  if (devices >= options.ranks) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--device cuda: each rank needs a GPU: --ranks is ", options.ranks,
                   ", and this machine has ", Counted(devices, "GPU")));
}

// A coordinator on this machine is reached over loopback, and so is no other node. Replaces the
// address where the user has allowed plaintext on others, else says what may be wrong.
void LeaveLoopback(AgentOptions& options) {
  const std::string how =
      absl::StrCat("the coordinator is reached over the loopback address ", options.in_pool_address,
                   ", at which other machines do not reach this node");
  const absl::StatusOr<std::string> outer = OuterAddress();
  if (outer.ok() && options.allow_plaintext_beyond_localhost) {
    options.in_pool_address = *outer;
    options.log.Info(absl::StrCat(how, ": the pool's other nodes get ", *outer,
                                  "; --in-pool-address names another one"));
    return;
  }
  options.log.Warning(
      absl::StrCat(how, ": if the pool has nodes on other machines, give --in-pool-address",
                   outer.ok() ? absl::StrCat(" ", *outer, " and --allow-plaintext-beyond-localhost")
                              : absl::StrCat(" (", outer.status().message(), ")")));
}

void TellUnusedNodes(const Logger& log) {
  const char* const nodes = std::getenv("SLURM_JOB_NUM_NODES");
  int number = 0;
  if (nodes == nullptr || !absl::SimpleAtoi(nodes, &number) || number < 2) return;
  log.Warning(absl::StrCat("this pool has one node, and the allocation of Slurm has ", number,
                           ": start the worker with srun, which starts one on each"));
}

// Determines how the pool's other nodes reach this one and verify it.
absl::Status PrepareNode(const SiteChoice& choice, AgentOptions& options) {
  LH_ASSIGN_OR_RETURN(const NodeIdentity identity,
                      IdentifyNode(choice.nodes, choice.node, options.host,
                                   [](const char* name) { return std::getenv(name); }));
  options.nodes = identity.nodes;
  options.node = identity.node;
  if (!choice.nodes.has_value() && options.nodes == 1) TellUnusedNodes(options.log);
  const char* const flag = "--in-pool-address";
  // Nothing uses it then, but a wrong one is a mistake.
  if (options.nodes == 1) {
    return options.in_pool_address.empty()
               ? absl::OkStatus()
               : OfFlag(flag, InterfaceOf(options.in_pool_address).status());
  }
  if (options.in_pool_address.empty()) {
    absl::StatusOr<std::string> address = AddressTowards(options.coordinator);
    if (!address.ok()) {
      return OfFlag(flag, absl::Status(address.status().code(),
                                       absl::StrCat(address.status().message(),
                                                    "; give the address of this machine")));
    }
    options.in_pool_address = *std::move(address);
    if (IsLoopback(options.in_pool_address)) LeaveLoopback(options);
  }
  LH_ASSIGN_OR_RETURN(options.in_pool_interface,
                      OfFlag(flag, InterfaceOf(options.in_pool_address)));
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

CoreBinding BindingOf(const std::string& name, v1::Device device) {
  if (name == "cores") return CoreBinding::kCores;
  if (name == "node") return CoreBinding::kNode;
  if (name == "none") return CoreBinding::kNone;
  return device == v1::CUDA ? CoreBinding::kNone : CoreBinding::kNode;
}

// Leaves out the cores that other processes use now.
void LeaveBusyCores(HostCores& host, const Logger& log) {
  // What another worker measures would count as busy.
  const MeasuringTurn turn;
  const absl::StatusOr<int> busy = MeasureBusyCores(host, [] { absl::SleepFor(kBusyWindow); });
  if (!busy.ok())
    return log.Info(absl::StrCat("all cores count as idle: ", busy.status().message()));
  host.busy = *busy;
}

// Gives the ranks their threads and cores.
void ChooseCores(const SiteChoice& choice, AgentOptions& options) {
  const bool communicates = options.device != v1::CUDA && options.ranks * options.nodes > 1;
  absl::StatusOr<HostCores> host = ReadHostCores();
  if (host.ok()) {
    if (!choice.threads.has_value()) LeaveBusyCores(*host, options.log);
    options.cores = CoresOfRanks(*host, options.ranks, BindingOf(choice.bind_cores, options.device),
                                 communicates);
  } else {
    const int share = static_cast<int>(std::thread::hardware_concurrency()) / options.ranks;
    options.cores.assign(options.ranks, {.threads = std::max(1, share)});
    options.log.Warning(absl::StrCat("ranks are not bound to cores: ", host.status().message()));
  }
  for (RankCores& rank : options.cores) rank.threads = choice.threads.value_or(rank.threads);
  if (host.ok()) options.log.Info(Describe(*host, options.cores));
}

void TellRemovedVariables(const Logger& log) {
  const ComputeEnvironment environment = ComputeEnvironmentOf(environ, {});
  if (environment.removed.empty()) return;
  log.Info(absl::StrCat("the ranks' environment is without ",
                        absl::StrJoin(environment.removed, ", "),
                        ": --threads and --bind-cores decide on threads and cores"));
}

}  // namespace

absl::Status PrepareCores(const SiteChoice& choice, AgentOptions& options) {
  LH_RETURN_IF_ERROR(CheckRankProgram(options));
  ChooseCores(choice, options);
  return absl::OkStatus();
}

absl::Status PrepareSite(const SiteChoice& choice, AgentOptions& options) {
  options.host = HostName();
  LH_RETURN_IF_ERROR(CheckOptions(choice, options));
  LH_RETURN_IF_ERROR(PrepareNode(choice, options));
  ChooseCores(choice, options);
  TellRemovedVariables(options.log);
  options.capabilities = CapabilitiesOn(options.device);
  return absl::OkStatus();
}

}  // namespace longhaul
