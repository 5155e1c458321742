#include "worker/agent/flags.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/exit_code.h"
#include "common/base/names.h"
#include "common/base/program_beside.h"
#include "common/base/status_macros.h"
#include "common/command_line/help_page.h"
#include "common/command_line/usage_fault.h"
#include "common/command_line/value_checks.h"
#include "common/logging/flag_error.h"

namespace longhaul {
namespace {

constexpr char kProgram[] = "longhaul-worker";
constexpr absl::Duration kTimeMax = absl::Hours(8760);

// Values of the command line as text or plain numbers, before they are checked.
struct Words {
  explicit Words(const AgentOptions& defaults)
      : return_within(absl::FormatDuration(defaults.return_within)),
        state_every(absl::FormatDuration(defaults.state_every)),
        drain_seconds(absl::ToDoubleSeconds(defaults.drain)),
        progress_timeout(absl::ToDoubleSeconds(defaults.progress.at_least)) {}

  std::string device = "cpu", log_format = "auto";
  std::string return_within, state_every;
  double drain_seconds, progress_timeout;
};

void AddPoolFlags(CLI::App& app, WorkerFlags& flags, Words& words) {
  AgentOptions& agent = flags.agent;
  app.add_option("--coordinator", agent.coordinator,
                 absl::StrCat("address of the coordinator (default ", agent.coordinator, ")"))
      ->type_name("HOST:PORT")
      ->envname("LONGHAUL_COORDINATOR");
  app.add_option("--pool", agent.pool, absl::StrCat("name of the pool: ", kNameForm))
      ->type_name("NAME")
      ->required()
      ->envname("LONGHAUL_POOL");
  app.add_option("--ranks", agent.ranks,
                 absl::StrCat("rank processes of this node (default ", agent.ranks,
                              "); a pool has at most ", kRanksMax))
      ->type_name("N")
      ->check(WholeNumber(1, kRanksMax))
      ->envname("LONGHAUL_RANKS");
  app.add_option("--nodes", flags.site.nodes,
                 "machines of this pool, each with a worker of the same flags (default: NNODES of "
                 "the environment, else 1)")
      ->type_name("N")
      ->check(WholeNumber(1, kRanksMax))
      ->envname("LONGHAUL_NODES");
  app.add_option("--node", flags.site.node,
                 "number of this node, from 0 (default: NODE_RANK of the environment, else the "
                 "ordinal of a StatefulSet's pod, else the coordinator gives one)")
      ->type_name("N")
      ->check(WholeNumber(0, kRanksMax - 1))
      ->envname("LONGHAUL_NODE");
  app.add_option("--in-pool-address", agent.in_pool_address,
                 "with --nodes: numeric address of this machine that the other nodes reach "
                 "(default: that from which it reaches the coordinator)")
      ->type_name("ADDRESS")
      ->envname("LONGHAUL_IN_POOL_ADDRESS");
  app.add_flag("--allow-plaintext-beyond-localhost", agent.allow_plaintext_beyond_localhost,
               "with --nodes: the network between the nodes is private. The ranks' data (Gloo, "
               "NCCL) is plaintext there; without TLS, the exchange of their addresses, too")
      ->envname("LONGHAUL_ALLOW_PLAINTEXT_BEYOND_LOCALHOST");
  app.add_option("--threads", flags.site.threads,
                 "threads of a rank (default: its share of the cores that cpuset, affinity, the "
                 "cgroup's quota and other processes leave when the worker starts; with several "
                 "ranks in the pool, and 4 cores or more for each, one less, for the exchange "
                 "between them)")
      ->type_name("N")
      ->check(WholeNumber(1, 4096))
      ->envname("LONGHAUL_THREADS");
  app.add_option("--bind-cores", flags.site.bind_cores,
                 "where several ranks of this node run: on any core (none), on their NUMA nodes "
                 "(node, the default with --device cpu), each on cores of its own (cores; not "
                 "where several workers share this machine)")
      ->type_name("WHERE")
      ->check(OneOf({"none", "node", "cores"}))
      ->envname("LONGHAUL_BIND_CORES");
  app.add_option("--device", words.device, absl::StrCat("cpu or cuda (default ", words.device, ")"))
      ->type_name("DEVICE")
      ->check(OneOf({"cpu", "cuda"}))
      ->envname("LONGHAUL_DEVICE");
}

void AddLinkFlags(CLI::App& app, AgentOptions& agent) {
  app.add_option("--bulk-channels", agent.bulk_channels,
                 "connections of a rank for fragments (default: 1 near the coordinator, else by "
                 "--link-mbps and the measured round trip, 4 to 16)")
      ->type_name("N")
      ->check(WholeNumber(1, 256))
      ->envname("LONGHAUL_BULK_CHANNELS");
  app.add_option(
         "--link-mbps", agent.link_mbps,
         absl::StrCat("bandwidth between this pool and the coordinator in Mbit/s (default ",
                      agent.link_mbps,
                      "). Where the round trip is long, the ranks together send a little less "
                      "than this, unless --bulk-channels is given"))
      ->type_name("MBPS")
      ->check(Number(0.1, 1e6))
      ->envname("LONGHAUL_LINK_MBPS");
  app.add_option("--tls-ca", agent.tls_files.ca,
                 "PEM file of the authorities that the coordinator's certificate comes from")
      ->type_name("FILE")
      ->envname("LONGHAUL_TLS_CA");
  app.add_option("--tls-certificate", agent.tls_files.certificate,
                 "PEM file of this pool's certificate; with --tls-ca and --tls-key")
      ->type_name("FILE")
      ->envname("LONGHAUL_TLS_CERTIFICATE");
  app.add_option("--tls-key", agent.tls_files.key, "PEM file of its private key")
      ->type_name("FILE")
      ->envname("LONGHAUL_TLS_KEY");
}

void AddFolderFlags(CLI::App& app, AgentOptions& agent, Words& words) {
  app.add_option("--trace", agent.trace,
                 "write a timeline of each rank's engine to FILE.RANK (Chrome trace format)")
      ->type_name("FILE")
      ->envname("LONGHAUL_TRACE");
  app.add_option("--track-dir", agent.track_dir,
                 "folder for the curves of this pool's jobs, for TensorBoard and as JSON lines: "
                 "JOB-ID/pool-NAME below it (default: none; the coordinator has them, too)")
      ->type_name("DIR")
      ->envname("LONGHAUL_TRACK_DIR");
  app.add_option("--update-rates", agent.update_rates,
                 "keeps the rates that offloaded updates are scheduled by, so that ranks "
                 "measure them once (at most 2 s) and not at every start")
      ->type_name("FILE")
      ->envname("LONGHAUL_UPDATE_RATES");
  app.add_option("--data-dir", agent.data_dir,
                 "relative data paths of jobs begin here (default: current folder)")
      ->type_name("DIR")
      ->envname("LONGHAUL_DATA_DIR");
  app.add_option("--work-dir", agent.work_dir,
                 "tokens that are made of text are kept here, for later ranks and jobs (default: "
                 ".longhaul in --data-dir where that can be written, else longhaul-work in the "
                 "folder for temporary files)")
      ->type_name("DIR")
      ->envname("LONGHAUL_WORK_DIR");
  app.add_option(
         "--state-dir", agent.state_dir,
         "folder for what the inner optimizers of this pool remember (moments and the like), "
         "saved beside training: ranks that begin again go on with it (default: none; they "
         "begin at zero). It takes a copy of that state in memory and three on disk")
      ->type_name("DIR")
      ->envname("LONGHAUL_STATE_DIR");
  app.add_option("--state-every", words.state_every,
                 "with --state-dir: how often it is saved, as 1m or 30s (default 1m; less often "
                 "where writing takes longer)")
      ->type_name("TIME")
      ->envname("LONGHAUL_STATE_EVERY");
}

void AddPageFlags(CLI::App& app, AgentOptions& agent) {
  app.add_option("--http-listen", agent.http_listen,
                 "address of /metrics, /healthz and /readyz, as 127.0.0.1:7072 (default: none)")
      ->type_name("HOST:PORT")
      ->envname("LONGHAUL_HTTP_LISTEN");
  app.add_option("--tokens", agent.tokens_file,
                 "with --http-listen: file of users' tokens, as the coordinator's --tokens; then "
                 "/metrics needs one. Read again while it runs")
      ->type_name("FILE")
      ->envname("LONGHAUL_TOKENS");
  app.add_flag("--insecure", agent.insecure,
               "let other machines read --http-listen without a token: for networks that are "
               "private by other means")
      ->envname("LONGHAUL_INSECURE");
}

void AddTimeFlags(CLI::App& app, AgentOptions& agent, Words& words) {
  app.add_option("--drain-seconds", words.drain_seconds,
                 absl::StrCat("after SIGTERM, how long the ranks have to finish their step and "
                              "send their last contributions (default ",
                              words.drain_seconds, ")"))
      ->type_name("SECONDS")
      ->check(Number(0, 86400))
      ->envname("LONGHAUL_DRAIN_SECONDS");
  app.add_option("--return-within", words.return_within,
                 absl::StrCat("after SIGTERM, how long the pool's place in its job is to be kept, "
                              "as 10m or 90s (default ",
                              words.return_within, "; at most 1h)"))
      ->type_name("TIME")
      ->envname("LONGHAUL_RETURN_WITHIN");
  app.add_option("--progress-timeout", words.progress_timeout,
                 absl::StrCat("seconds without progress after which the ranks are ended and "
                              "started again (default ",
                              words.progress_timeout, "); not while they wait for the coordinator"))
      ->type_name("SECONDS")
      ->check(Number(2, 86400))
      ->envname("LONGHAUL_PROGRESS_TIMEOUT");
  app.add_option(
         "--progress-factor", agent.progress.factor,
         absl::StrCat("with --progress-timeout: and not before this many times the usual time of "
                      "a step (default ",
                      agent.progress.factor, ")"))
      ->type_name("N")
      ->check(Number(1, 1e6))
      ->envname("LONGHAUL_PROGRESS_FACTOR");
}

void AddProgramFlags(CLI::App& app, AgentOptions& agent, Words& words) {
  app.add_option("--rank-program", agent.rank_program,
                 "path of longhaul-rank (default: beside this program)")
      ->type_name("FILE")
      ->envname("LONGHAUL_RANK_PROGRAM");
  app.add_option("--log-level", agent.log_level, "debug, info, warning or error")
      ->type_name("LEVEL")
      ->envname("LONGHAUL_LOG_LEVEL");
  app.add_option("--log-format", words.log_format, "auto, text or json")
      ->type_name("FORM")
      ->envname("LONGHAUL_LOG_FORMAT");
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

// `examples`: times that the flag takes.
absl::Status ReadTime(absl::string_view flag, const std::string& text, absl::Duration least,
                      absl::string_view examples, absl::Duration* time) {
  if (absl::ParseDuration(text, time) && *time >= least && *time <= kTimeMax)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", text, "' is not a time like ", examples));
}

absl::Status Convert(const Words& words, WorkerFlags& flags) {
  AgentOptions& agent = flags.agent;
  LH_ASSIGN_OR_RETURN(flags.log_level, OfFlag("--log-level", ParseLogLevel(agent.log_level)));
  LH_ASSIGN_OR_RETURN(flags.log_format, OfFlag("--log-format", ParseLogFormat(words.log_format)));
  agent.drain = absl::Seconds(words.drain_seconds);
  agent.progress.at_least = absl::Seconds(words.progress_timeout);
  LH_RETURN_IF_ERROR(ReadTime("--return-within", words.return_within, absl::ZeroDuration(),
                              "10m or 90s", &agent.return_within));
  LH_RETURN_IF_ERROR(ReadTime("--state-every", words.state_every, absl::Nanoseconds(1), "1m or 30s",
                              &agent.state_every));
  agent.device = words.device == "cuda" ? v1::CUDA : v1::CPU;
  if (agent.work_dir.empty()) ChooseWorkFolder(flags);
  return absl::OkStatus();
}

}  // namespace

std::optional<WorkerFlags> ParseWorkerFlags(int argc, char** argv, int* exit_code) {
  WorkerFlags flags;
  AgentOptions& agent = flags.agent;
  agent.coordinator = "localhost:7070";
  agent.rank_program = ProgramBeside("longhaul-rank");
  agent.data_dir = std::filesystem::current_path().string();
  Words words(agent);
  CLI::App app{
      "The agent of a pool's node: joins a coordinator, runs the pool's ranks. It only dials out.",
      kProgram};
  SetHelpPage(app);
  // In this order, --help shows them.
  AddPoolFlags(app, flags, words);
  AddLinkFlags(app, agent);
  AddFolderFlags(app, agent, words);
  AddPageFlags(app, agent);
  AddTimeFlags(app, agent, words);
  AddProgramFlags(app, agent, words);
  const std::vector<std::string> args(argv + 1, argv + argc);
  *exit_code = kExitBadArguments;
  try {
    ParseCommandLine(app, args);
    // CLI11 reports by exceptions, also for --help.
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      *exit_code = app.exit(error);
    } else {
      const UsageFault fault = ExplainUsage(app, error, args);
      SayFlagError(kProgram, argc, argv, fault.message, fault.hint);
    }
    return std::nullopt;
  }
  if (const absl::Status converted = Convert(words, flags); !converted.ok()) {
    SayFlagError(kProgram, argc, argv, converted.message(), "");
    return std::nullopt;
  }
  flags.misspelt = MisspeltVariables(app, environ);
  return flags;
}

}  // namespace longhaul
