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
  std::string format = "auto", field = "text", tokenizer;
  std::optional<int64_t> eos, bos;
  int64_t vocab = 0;
  int line_mib_max = kLineMibDefault;
  int sample = 32;
};

struct Arguments {
  std::string command;     // "submit", "get", "data check", ...
  std::string context;     // Empty: not given.
  std::string server;      // Likewise.
  TlsFiles tls;            // Likewise, each.
  std::string token_file;  // Likewise.
  OutputFormat output = OutputFormat::kTable;
  absl::Duration timeout = absl::Seconds(30);
  bool timeout_given = false;

  std::string file;  // submit
  std::vector<std::string> overrides;
  std::string token;
  bool wait = false, follow = false, dry_run = false;
  int limit = 1000;    // list
  int tail = 100;      // logs
  bool names = false;  // list, contexts
  std::string from;    // submit
  std::string out;     // download, export
  // get, watch, wait, logs, cancel, checkpoints, and those of results.h; export: a job or the
  // folder of a checkpoint.
  std::string job;
  std::string path;                          // spec explain
  std::string spec_template = "quickstart";  // spec init
  std::string data_dir = ".";                // doctor
  std::string reason;                        // cancel
  std::string shell;                         // completion
  std::string certs_dir = "longhaul-ca", certificate_kind, certificate_name;
  std::vector<std::string> hosts;
  std::optional<int> days;
  std::string tokenizer, format = "hf", dtype = "bf16", cache;  // export
  bool last_commit = false;                                     // export
  DataArguments data;
};

struct Help {
  std::string text;
};

// The commands and options of the program. A parse writes its values to `arguments`, which must
// outlive the result.
std::unique_ptr<CLI::App> MakeApp(Arguments& arguments);

// `args` without the program's name.
std::variant<Arguments, Help, CliError> ParseArguments(const std::vector<std::string>& args);

// The format that -o asks for. Also for a command line with other faults, since its error is
// written in that format.
OutputFormat OutputFormatOf(const std::vector<std::string>& args);

}  // namespace longhaul::cli
