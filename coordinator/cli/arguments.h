// The command line as values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/base/jsonl_line.h"
#include "common/rpc/tls_files.h"
#include "coordinator/cli/cli_error.h"

namespace CLI {
class App;
}  // namespace CLI

namespace longhaul::cli {

enum class OutputFormat { kTable, kJson, kJsonl, kYaml };

// Of `data check`.
struct DataArguments {
  std::vector<std::string> paths;
  std::string format = "auto", field = "text", tokenizer, chat_template, null_rows = "refuse";
  std::optional<int64_t> eos, bos;
  int64_t vocab = 0;
  int line_mib_max = kLineMibDefault;
  int sample = 32;
  int width = 0;
  bool as_is = false, control_tokens = false;
};

// Of `graph`.
struct GraphArguments {
  // import edges
  int64_t nodes = 0, classes = 0;
  std::vector<std::string> edges;
  std::string features, labels, train, valid, test;
  std::string train_pairs, valid_pairs, test_pairs;
  // import ogb, import graphbolt, info
  std::string folder, split, task, feature;
  // import
  bool reverse_edges = false, directed = false, keep_duplicates = false, keep_held_out = false;
  double valid_share = 0, test_share = 0;
  uint64_t split_seed = 1;
  std::string ids, class_names, feature_names;
  int memory_mib = 256;
  // info
  bool quick = false;
};

struct SimulateArguments {
  // utilization
  double parameters = 0, step_seconds = 0, bits = 16, gbit_per_second = 0;
  int layers = 1, h = 100, fragment_layers = 3, tau = 0;
  std::string method;
  bool h_given = false, fragment_layers_given = false, tau_given = false, bits_given = false;
  std::vector<double> targets;
  // offload
  std::vector<std::string> points;
  double host_rate = 0, device_rate = 0, up_rate = 0, down_rate = 0, memory_rate = 0;
  int ranks = 1;
  // partition
  std::string preset = "zeropp", links;
  int node = 8, accumulation = 1;
  bool float32 = false;
  // gather-requests
  int dim = 0;
  bool aligned = false;
  // cores
  std::string calibrate, counters, predict, core;
  bool host = false;
  // 0: one for each core.
  int threads = 0;
  // job
  std::vector<int> pools;
  int64_t rounds = 200;
  std::string faults;
  uint64_t seed = 0;
};

// What the command line says. Text that is empty was not given.
struct Arguments {
  // "submit", "get", "data check", ...
  std::string command;

  // --- For every command.

  std::string context, server, token_file;
  TlsFiles tls;
  OutputFormat output = OutputFormat::kTable;
  absl::Duration timeout = absl::Seconds(30);
  bool timeout_given = false;

  // --- For some commands.

  // get, watch, wait, logs, cancel, pause, resume, checkpoints, and those of results.h; export: a
  // job or the folder of a checkpoint.
  std::string job;
  bool wait = false, follow = false;
  // submit with wait or follow; wait, watch
  bool fail_unhealthy = false;
  // list, contexts
  bool names = false;
  // compare
  std::vector<std::string> jobs;
  // download, export, graph import
  std::string out;

  // --- submit; file and overrides: plan, too
  std::string file, from, token;
  std::vector<std::string> overrides;
  bool dry_run = false;
  // --- plan
  std::string sites;
  // Below, or 0 of the bandwidth: not given.
  double link_mbps = 0, rtt_ms = -1;
  double utilization = 0.9;
  // Name of the pool. Empty: not given.
  std::string alone;
  // --- list
  int limit = 1000;
  // --- logs
  int tail = 100;
  // --- cancel, pause
  std::string reason;
  // --- spec explain, spec init
  std::string path, spec_template = "quickstart";
  // --- doctor
  std::string data_dir = ".";
  // --- completion
  std::string shell;
  // --- certs
  std::string certs_dir = "longhaul-ca", certificate_kind, certificate_name, kit_coordinator;
  std::vector<std::string> hosts;
  std::optional<int> days;
  // --- tokens
  std::string user, role, tokens_file = "tokens";
  // --- export
  std::string tokenizer, format = "hf", dtype = "bf16", cache;
  bool last_commit = false;
  // --- data check
  DataArguments data;
  // --- graph
  GraphArguments graph;
  // --- simulate
  SimulateArguments simulate;
};

struct Help {
  std::string text;
};

// The commands and options of the program. A parse writes its values to `arguments`, which must
// outlive the result.
std::unique_ptr<CLI::App> MakeApp(Arguments& arguments);

// A command of `app` whose argument is a job.
CLI::App* AddJobCommand(CLI::App& app, Arguments& arguments, const char* name, const char* about);

// `args` without the program's name.
std::variant<Arguments, Help, CliError> ParseArguments(const std::vector<std::string>& args);

// The format that -o asks for. Also for a command line with other faults, since its error is
// written in that format.
OutputFormat OutputFormatOf(const std::vector<std::string>& args);

}  // namespace longhaul::cli
