#include "coordinator/cli/arguments.h"

#include <algorithm>
#include <map>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/config/nearest_name.h"

namespace longhaul::cli {
namespace {

constexpr char kFooter[] = R"(
Exit codes: 0 ok; 1 the job failed, was cancelled or is quarantined, the server refused or failed, or
standard output could not be written; 2 no connection, or not allowed in; 3 a deadline passed; 4 bad
arguments or spec; 5 internal error. Data goes to standard output, messages for people to standard
error. The server's address is --server, else LONGHAUL_SERVER, else `server: host:port` in
~/.config/longhaul/config.yaml, else localhost:7070. Likewise LONGHAUL_TLS_CA, LONGHAUL_TLS_CERTIFICATE
and LONGHAUL_TLS_KEY stand for the options of those names.)";

const std::map<std::string, OutputFormat> kFormats = {
    {"table", OutputFormat::kTable}, {"json", OutputFormat::kJson}, {"yaml", OutputFormat::kYaml}};

void AddGlobalOptions(CLI::App& app, Arguments& arguments) {
  app.add_option("--server", arguments.server, "Coordinator, as host:port")->type_name("HOST:PORT");
  app.add_option("--tls-ca", arguments.tls.ca,
                 "PEM file of the authorities that the coordinator's certificate comes from")
      ->type_name("FILE");
  app.add_option("--tls-certificate", arguments.tls.certificate,
                 "PEM file of your certificate; with --tls-ca and --tls-key")
      ->type_name("FILE");
  app.add_option("--tls-key", arguments.tls.key, "PEM file of its private key")->type_name("FILE");
  app.add_option("-o,--output", arguments.output, "Form of the data: table, json or yaml")
      ->type_name("FORM")
      ->transform(CLI::CheckedTransformer(kFormats).description(""));
  app.add_option_function<std::string>(
         "--timeout",
         [&arguments](const std::string& text) {
           if (!absl::ParseDuration(text, &arguments.timeout) ||
               arguments.timeout <= absl::ZeroDuration()) {
             throw CLI::ValidationError("--timeout",
                                        "'" + text + "' is not a duration, as 500ms, 30s or 2h");
           }
           arguments.timeout_given = true;
         },
         "Deadline of each call (30s); with watch, --wait and --follow, of the whole wait (none)")
      ->type_name("DURATION");
}

CLI::App* AddJobCommand(CLI::App& app, Arguments& arguments, const char* name, const char* about) {
  CLI::App* command = app.add_subcommand(name, about);
  command->add_option("JOB", arguments.job, "Name or id of the job")->required();
  return command;
}

void AddSubmit(CLI::App& app, Arguments& arguments) {
  CLI::App* submit = app.add_subcommand(
      "submit", "Submit a job. The same name and spec again finds the job that exists");
  submit
      ->add_option("-f,--file", arguments.file, "Job spec in YAML or JSON; - reads standard input")
      ->type_name("FILE")
      ->required();
  submit
      ->add_option("--set", arguments.overrides,
                   "Change one value of the spec, as --set sync.h=100; repeatable")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  submit->add_option("--token", arguments.token,
                     "Idempotency token: a repeated one gets the first answer");
  submit->add_flag("--dry-run", arguments.dry_run,
                   "Check the spec and show the job, with every default; store nothing");
  submit->add_flag("--wait", arguments.wait, "Wait until the job has ended");
  submit->add_flag("--follow", arguments.follow, "Show progress until the job has ended");
}

void AddData(CLI::App& app, DataArguments& data) {
  CLI::App* group = app.add_subcommand("data", "Look at training data on this machine");
  group->require_subcommand(1);
  CLI::App* check = group->add_subcommand(
      "check", "Tell what files are, count tokens and documents, show a sample, find damage");
  check->add_option("PATH", data.paths, "Files, folders or patterns")->required();
  check
      ->add_option("--format", data.format,
                   "auto (by content), text, jsonl, nanogpt, llmc or megatron")
      ->check(
          CLI::IsMember({"auto", "text", "jsonl", "nanogpt", "llmc", "megatron"}).description(""));
  check->add_option("--field", data.field, "Of JSONL: the field with the text (text)");
  check
      ->add_option("--tokenizer", data.tokenizer,
                   "SentencePiece model for text and JSONL (default: bytes)")
      ->type_name("FILE");
  check
      ->add_option("--eos", data.eos,
                   "Token behind each document; counted in token files; -1: none")
      ->type_name("TOKEN");
  check->add_option("--vocab", data.vocab, "The model's vocab: tokens must be below it")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31).description(""));
  check->add_option("--sample", data.sample, "Tokens shown of each file (32)")
      ->type_name("N")
      ->check(CLI::Range(0, 100000).description(""));
}

void AddCommands(CLI::App& app, Arguments& arguments) {
  AddSubmit(app, arguments);
  app.add_subcommand("list", "List jobs, newest first")
      ->add_option("--limit", arguments.limit, "At most so many (1000)")
      ->type_name("N")
      ->check(CLI::Range(1, 100000).description(""));
  AddJobCommand(app, arguments, "get", "Show a job");
  AddJobCommand(app, arguments, "watch", "Show the progress of a job until it has ended");
  AddJobCommand(app, arguments, "cancel", "Stop a job for good; its last commit stays")
      ->add_option("--reason", arguments.reason, "Recorded with the job");
  app.add_subcommand("pools", "List pools");
  AddJobCommand(app, arguments, "checkpoints", "List the checkpoints of a job");
  AddData(app, arguments.data);
  app.add_subcommand("version", "Show the version of this program");
  app.add_subcommand("completion", "Print a completion script: source <(longhaul completion bash)")
      ->add_option("SHELL", arguments.shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}).description(""));
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  const auto add = [&](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  };
  add(app);
  for (const CLI::App* command : app.get_subcommands({})) {
    add(*command);
    for (const CLI::App* inner : command->get_subcommands({})) add(*inner);
  }
  return names;
}

// What a typo usually is: a first word that is no command, or an option that no command has.
CliError ExplainParseError(const CLI::App& app, const CLI::ParseError& parse_error,
                           const std::vector<std::string>& args) {
  const std::vector<std::string> commands = CommandNames(app), options = OptionNames(app);
  const auto in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (!args.empty() && !absl::StartsWith(args[0], "-") && !in(commands, args[0])) {
    return UsageError(absl::StrCat("no such command: ", args[0]),
                      NearestNameHint(args[0], commands));
  }
  for (const std::string& arg : args) {
    const std::string name = arg.substr(0, arg.find('='));
    if (!absl::StartsWith(name, "--") || in(options, name)) continue;
    if (const std::string nearest = NearestName(name, options); !nearest.empty()) {
      return UsageError(absl::StrCat("no such option: ", name),
                        absl::StrCat("did you mean '", nearest, "'?"));
    }
  }
  return UsageError(
      parse_error.what(),
      "`longhaul --help` shows the commands, `longhaul COMMAND --help` their options");
}

}  // namespace

std::unique_ptr<CLI::App> MakeApp(Arguments& arguments) {
  auto app = std::make_unique<CLI::App>("Submits and follows Longhaul jobs; checks their data.",
                                        "longhaul");
  app->fallthrough();  // Global options may follow the command.
  app->require_subcommand(1);
  app->footer(kFooter + 1);
  AddGlobalOptions(*app, arguments);
  AddCommands(*app, arguments);
  return app;
}

std::variant<Arguments, Help, CliError> ParseArguments(const std::vector<std::string>& args) {
  Arguments arguments;
  const std::unique_ptr<CLI::App> app = MakeApp(arguments);
  try {  // CLI11 reports by exceptions; this is the one call boundary.
    app->parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    return Help{app->help()};
  } catch (const CLI::ParseError& e) {
    return ExplainParseError(*app, e, args);
  }
  const CLI::App* command = app->get_subcommands().front();
  arguments.command = command->get_name();
  for (const CLI::App* inner : command->get_subcommands())
    absl::StrAppend(&arguments.command, " ", inner->get_name());
  return arguments;
}

OutputFormat OutputFormatOf(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    std::string form;
    if ((args[i] == "-o" || args[i] == "--output") && i + 1 < args.size()) form = args[i + 1];
    if (absl::StartsWith(args[i], "--output=")) form = args[i].substr(9);
    if (absl::StartsWith(args[i], "-o") && args[i].size() > 2) form = args[i].substr(2);
    if (const auto found = kFormats.find(form); found != kFormats.end()) return found->second;
  }
  return OutputFormat::kTable;
}

}  // namespace longhaul::cli
