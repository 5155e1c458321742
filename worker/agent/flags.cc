#include "worker/agent/flags.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/names.h"
#include "common/base/program_beside.h"
#include "common/base/return_within.h"
#include "common/command_line/config_file.h"
#include "common/command_line/help_page.h"
#include "common/command_line/value_checks.h"
#include "worker/agent/machine_figures.h"

namespace longhaul {
namespace {

constexpr char kProgram[] = "longhaul-worker", kMeasure[] = "--measure";
constexpr absl::Duration kTimeMax = absl::Hours(8760);

// Values of the command line as text or plain numbers, before they are checked.
struct Words {
  explicit Words(const AgentOptions& defaults)
      : return_within(absl::FormatDuration(defaults.return_within)),
        state_every(absl::FormatDuration(defaults.state_every)),
        drain_seconds(absl::ToDoubleSeconds(defaults.drain)),
        progress_timeout(absl::ToDoubleSeconds(defaults.progress.at_least)) {}

  std::string device = "cpu", log_format = "auto", output = "table";
  std::string return_within, state_every, exit_when_idle;
  double drain_seconds, progress_timeout;
  double measure_seconds = absl::ToDoubleSeconds(kMeasureMax);
};

void AddPoolFlags(ConfigFile& config, WorkerFlags& flags, Words& words) {
  AgentOptions& agent = flags.agent;
  config.Setting("coordinator", "HOST:PORT", agent.coordinator, "address of the coordinator");
  config.Setting("pool", "NAME", agent.pool, absl::StrCat("name of the pool: ", kNameForm))
      ->required(!flags.measures);
  config
      .Setting("ranks", "N", agent.ranks,
               absl::StrCat("rank processes of this node; a pool has at most ", kRanksMax))
      ->check(WholeNumber(1, kRanksMax));
  config
      .Setting("nodes", "N", flags.site.nodes,
               "number of machines of this pool, each running a worker with the same flags "
               "(default: NNODES of the environment, else in a step of Slurm its nodes, else 1)")
      ->check(WholeNumber(1, kRanksMax));
  config
      .Setting("node", "N", flags.site.node,
               "number of this node, from 0 (default: NODE_RANK of the environment, else in a step "
               "of Slurm SLURM_NODEID, else the ordinal of a StatefulSet's pod, else the "
               "coordinator assigns one)")
      ->check(WholeNumber(0, kRanksMax - 1));
  config.Setting("in-pool-address", "ADDRESS", agent.in_pool_address,
                 "with --nodes: numeric address at which the other nodes reach this machine "
                 "(default: the one that it uses to reach the coordinator)");
  config.Switch("allow-plaintext-beyond-localhost", agent.allow_plaintext_beyond_localhost,
                "with --nodes: the network between the nodes is private. The ranks' data (Gloo, "
                "NCCL) is plaintext there; without TLS, the exchange of their addresses as well");
  config
      .Setting("threads", "N", flags.site.threads,
               "threads per rank (default: an equal share of the cores that are available when the "
               "worker starts, by cpuset, affinity, cgroup quota and other processes; if the pool "
               "has several ranks with at least 4 cores each, one less, which serves the exchange "
               "between them)")
      ->check(WholeNumber(1, 4096));
  config
      .Setting("bind-cores", "WHERE", flags.site.bind_cores,
               "where several ranks of this node run: on any core (none), on their NUMA nodes "
               "(node, the default with --device cpu), or each on its own cores (cores; not if "
               "several workers share this machine)")
      ->check(OneOf({"none", "node", "cores"}));
  config.Setting("device", "DEVICE", words.device, "cpu or cuda")->check(OneOf({"cpu", "cuda"}));
}

void AddLinkFlags(ConfigFile& config, AgentOptions& agent) {
  config
      .Setting("bulk-channels", "N", agent.bulk_channels,
               "connections per rank for fragments; 0: 1 near the coordinator, else 4 to 16, "
               "depending on --link-mbps and the measured round trip")
      ->check(WholeNumber(0, 256));
  config
      .Setting(
          "link-mbps", "MBPS", agent.link_mbps,
          "bandwidth between this pool and the coordinator in Mbit/s. If the round trip is long, "
          "the ranks together send a little less than this, unless --bulk-channels is given")
      ->check(Number(0.1, 1e6));
  config.Setting("tls-ca", "FILE", agent.tls_files.ca,
                 "PEM file of the authorities (CA) that sign the coordinator's certificate");
  config.Setting("tls-certificate", "FILE", agent.tls_files.certificate,
                 "PEM file of this pool's certificate; with --tls-ca and --tls-key");
  config.Setting("tls-key", "FILE", agent.tls_files.key, "PEM file of its private key");
}

void AddFolderFlags(ConfigFile& config, AgentOptions& agent, Words& words) {
  config.Setting("trace", "FILE", agent.trace,
                 "write a timeline of each rank's engine to FILE.RANK (Chrome trace format)");
  config.Setting("track-dir", "DIR", agent.track_dir,
                 "folder for the curves of this pool's jobs, as TensorBoard files and JSON lines "
                 "in JOB-ID/pool-NAME (default: none; the coordinator has them as well); created "
                 "if it does not exist");
  config.Setting("update-rates", "FILE", agent.update_rates,
                 "file for the measured rates that schedule offloaded updates, so that ranks "
                 "measure them once (at most 2 s) and not at every start");
  config.Setting("data-dir", "DIR", agent.data_dir,
                 "folder for the relative data paths of jobs (default: current folder)");
  config.Setting("work-dir", "DIR", agent.work_dir,
                 "folder for tokens made from text, for later ranks and jobs, and for the names of "
                 "agents on this machine (default: .longhaul in --data-dir if that is writable, "
                 "else longhaul-work in the folder for temporary files)");
  config.Setting(
      "state-dir", "DIR", agent.state_dir,
      "folder for the inner optimizer state of this pool (moments and the like), saved during "
      "training: ranks that restart resume from it (default: none; they start from zero); created "
      "if it does not exist. It needs one copy of that state in memory and three on disk");
  config
      .Setting("state-every", "TIME", words.state_every,
               "with --state-dir: how often the state is saved, for example 1m or 30s; less often "
               "if writing takes longer")
      ->check(TimeSpan(absl::Milliseconds(1), kTimeMax));
}

void AddPageFlags(ConfigFile& config, AgentOptions& agent) {
  config.Setting(
      "http-listen", "HOST:PORT", agent.http_listen,
      "address of /metrics, /healthz and /readyz, for example 127.0.0.1:7072 (default: none)");
  config.Setting("tokens", "FILE", agent.tokens_file,
                 "with --http-listen: file of user tokens, like --tokens of the coordinator; "
                 "/metrics then needs a token. Changes are read while the worker runs");
  config.Switch("http-tls", agent.http_tls,
                "serve --http-listen with TLS (https), with the certificate of --tls-certificate");
  config.Switch("insecure", agent.insecure,
                "let other machines read --http-listen without a token or without TLS; only for "
                "private networks");
}

void AddTimeFlags(ConfigFile& config, AgentOptions& agent, Words& words) {
  config
      .Setting(
          "drain-seconds", "SECONDS", words.drain_seconds,
          "time after SIGTERM for the ranks to finish their step and send their last contributions")
      ->check(Number(0, 86400));
  config
      .Setting("return-within", "TIME", words.return_within,
               "time after SIGTERM for which the pool's place in its job is reserved, for example "
               "10m, or 48h for a node that waits in the queue of a batch system; at most 168h")
      ->check(TimeSpan(absl::ZeroDuration(), kReturnWithinMax));
  config
      .Setting("exit-when-idle", "TIME", words.exit_when_idle,
               "end with code 0 when the pool has had no job for so long, for example 10m: gives "
               "the machine back to a batch system (default: never)")
      ->check(TimeSpan(absl::Seconds(1), kTimeMax));
  config
      .Setting("progress-timeout", "SECONDS", words.progress_timeout,
               "seconds without progress after which the ranks are restarted; not while they wait "
               "for the coordinator")
      ->check(Number(2, 86400));
  config
      .Setting("progress-factor", "N", agent.progress.factor,
               "with --progress-timeout: but not before this many times the usual time of a step")
      ->check(Number(1, 1e6));
}

void AddProgramFlags(ConfigFile& config, AgentOptions& agent, Words& words) {
  config.Setting("rank-program", "FILE", agent.rank_program,
                 "path of longhaul-rank (default: next to this program)");
  config.Setting("log-level", "LEVEL", agent.log_level, "debug, info, warning or error")
      ->check(OneOf({"debug", "info", "warning", "error"}));
  config.Setting("log-format", "FORM", words.log_format, "auto (text on a terminal), text or json")
      ->check(OneOf({"auto", "text", "json"}));
}

void AddMeasureFlags(CLI::App& app, ConfigFile& config, WorkerFlags& flags, Words& words) {
  config
      .Setting(
          "measure-seconds", "N", words.measure_seconds,
          "seconds for measuring this machine when the worker starts, for forecasts; the figures "
          "are kept in --state-dir, else in --work-dir, until machine, ranks, threads or "
          "version change. 0: they are not measured, and forecasts use nominal ones")
      ->check(Number(0, absl::ToDoubleSeconds(kMeasureMax)));
  app.add_flag(
      kMeasure, flags.measures,
      "measure what a rank of this machine does with Longhaul's own kernels, for at most "
      "--measure-seconds (5 where these are 0), show it, and exit. With --ranks, --threads and "
      "--bind-cores; needs no coordinator");
  app.add_option("-o,--output", words.output, "with --measure: table or json")
      ->type_name("FORM")
      ->capture_default_str()
      ->check(OneOf({"table", "json"}));
}

void ChooseWorkFolder(WorkerFlags& flags) {
  const std::string& data_dir = flags.agent.data_dir;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  flags.site.work_dir_in_temp = access(data_dir.c_str(), W_OK) != 0;
  flags.agent.work_dir = flags.site.work_dir_in_temp
                             ? (error ? "/tmp" : folder.string()) + "/longhaul-work"
                             : data_dir + "/.longhaul";
}

void Convert(const Words& words, WorkerFlags& flags) {
  AgentOptions& agent = flags.agent;
  flags.log_level = *ParseLogLevel(agent.log_level);
  flags.log_format = *ParseLogFormat(words.log_format);
  agent.drain = absl::Seconds(words.drain_seconds);
  flags.measure = absl::Seconds(words.measure_seconds);
  flags.measures_as_json = words.output == "json";
  agent.progress.at_least = absl::Seconds(words.progress_timeout);
  agent.return_within = CheckedTime(words.return_within);
  agent.state_every = CheckedTime(words.state_every);
  if (!words.exit_when_idle.empty()) agent.exit_when_idle = CheckedTime(words.exit_when_idle);
  agent.device = words.device == "cuda" ? v1::CUDA : v1::CPU;
  if (agent.rank_program.empty()) agent.rank_program = ProgramBeside("longhaul-rank");
  // Empty, which is a mistake of later: the folder was removed, or may not be read.
  std::error_code error;
  if (agent.data_dir.empty()) agent.data_dir = std::filesystem::current_path(error).string();
  if (agent.work_dir.empty()) ChooseWorkFolder(flags);
}

}  // namespace

std::optional<WorkerFlags> ParseWorkerFlags(int argc, char** argv, int* exit_code) {
  WorkerFlags flags;
  // Then it joins no coordinator.
  flags.measures = std::find(argv + 1, argv + argc, absl::string_view(kMeasure)) != argv + argc;
  AgentOptions& agent = flags.agent;
  agent.coordinator = "localhost:7070";
  Words words(agent);
  CLI::App app{
      "The agent of a pool's node: joins a coordinator and runs the pool's ranks. It only opens "
      "outgoing connections.",
      kProgram};
  SetHelpPage(app);
  ConfigFile config(app);
  // In this order, --help shows them.
  AddPoolFlags(config, flags, words);
  AddLinkFlags(config, agent);
  AddFolderFlags(config, agent, words);
  AddPageFlags(config, agent);
  AddTimeFlags(config, agent, words);
  AddProgramFlags(config, agent, words);
  AddMeasureFlags(app, config, flags, words);
  if (const std::optional<int> exit = config.Parse(argc, argv, flags.misspelt)) {
    *exit_code = *exit;
    return std::nullopt;
  }
  Convert(words, flags);
  return flags;
}

}  // namespace longhaul
