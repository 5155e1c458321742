// The command line as values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/rpc/tls_files.h"
#include "coordinator/cli/cli_error.h"

namespace CLI {
class App;
}  // namespace CLI

namespace longhaul::cli {

enum class OutputFormat { kTable, kJson, kYaml };

// Of `data check`.
struct DataArguments {
  std::vector<std::string> paths;
  std::string format = "auto", field = "text", tokenizer;
  std::optional<int64_t> eos;
  int64_t vocab = 0;
  int sample = 32;
};

struct Arguments {
  std::string command;  // "submit", "get", "data check", ...
  std::string server;   // Empty: not given.
  TlsFiles tls;         // Likewise, each.
  OutputFormat output = OutputFormat::kTable;
  absl::Duration timeout = absl::Seconds(30);
  bool timeout_given = false;

  std::string file;  // submit
  std::vector<std::string> overrides;
  std::string token;
  bool wait = false, follow = false, dry_run = false;
  int limit = 1000;    // list
  std::string job;     // get, watch, cancel, checkpoints
  std::string reason;  // cancel
  std::string shell;   // completion
  DataArguments data;
};

struct Help {
  std::string text;
};

// The commands and options of the program; `arguments` gets the values of a parse and must outlive
// the result.
std::unique_ptr<CLI::App> MakeApp(Arguments& arguments);

// `args` without the program's name.
std::variant<Arguments, Help, CliError> ParseArguments(const std::vector<std::string>& args);

// What -o asks for, also on a command line that is wrong elsewhere: its error is written in that
// form.
OutputFormat OutputFormatOf(const std::vector<std::string>& args);

}  // namespace longhaul::cli
