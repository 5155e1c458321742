#include "coordinator/cli/arguments.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/jsonl_line.h"
#include "common/command_line/help_page.h"
#include "common/command_line/usage_fault.h"
#include "common/command_line/value_checks.h"
#include "coordinator/cli/certificate_authority.h"
#include "coordinator/cli/graph_command.h"
#include "coordinator/cli/help_examples.h"
#include "coordinator/cli/other_words.h"
#include "coordinator/cli/pause.h"
#include "coordinator/cli/plan_command.h"
#include "coordinator/cli/results.h"
#include "coordinator/cli/simulate.h"
#include "coordinator/cli/spec_init.h"

namespace longhaul::cli {
namespace {

constexpr char kFooter[] = R"(
Exit codes: 0 ok; 1 the job failed, was cancelled or is quarantined, the server refused or failed, or
standard output could not be written; 2 no connection, or access denied; 3 a deadline passed; 4 bad
arguments or spec; 5 internal error. Data goes to standard output, messages to standard error. The
server's address is --server, else LONGHAUL_SERVER, else the address of a context in
~/.config/longhaul/config.yaml (`longhaul contexts --help`), else localhost:7070. Likewise
LONGHAUL_TLS_CA, LONGHAUL_TLS_CERTIFICATE, LONGHAUL_TLS_KEY, LONGHAUL_TOKEN_FILE and LONGHAUL_CONTEXT
replace the options of the same names. NO_COLOR turns colours off.
`longhaul COMMAND --help` (or `longhaul help COMMAND`) shows examples of each command.)";

const std::map<std::string, OutputFormat> kFormats = {{"table", OutputFormat::kTable},
                                                      {"json", OutputFormat::kJson},
                                                      {"jsonl", OutputFormat::kJsonl},
                                                      {"yaml", OutputFormat::kYaml}};

void AddGlobalOptions(CLI::App& app, Arguments& arguments) {
  app.add_option("--context", arguments.context,
                 "Context of ~/.config/longhaul/config.yaml: a coordinator and its TLS files")
      ->type_name("NAME");
  app.add_option("--server", arguments.server, "Coordinator, as host:port")->type_name("HOST:PORT");
  app.add_option("--tls-ca", arguments.tls.ca,
                 "PEM file of the authorities (CA) that sign the coordinator's certificate")
      ->type_name("FILE");
  app.add_option("--tls-certificate", arguments.tls.certificate,
                 "PEM file of your certificate; with --tls-ca and --tls-key")
      ->type_name("FILE");
  app.add_option("--tls-key", arguments.tls.key, "PEM file of its private key")->type_name("FILE");
  app.add_option("--token-file", arguments.token_file,
                 "File with your token, if the coordinator requires one. Needs --tls-ca, and your "
                 "certificate unless the coordinator accepts tokens alone (--allow-token-only)")
      ->type_name("FILE");
  app.add_option_function<std::string>(
         "-o,--output",
         [&arguments](const std::string& form) { arguments.output = kFormats.at(form); },
         "Output format: table, json, jsonl (one object per line) or yaml")
      ->type_name("FORM")
      ->check(OneOf({"table", "json", "jsonl", "yaml"}));
  app.add_option_function<std::string>(
         "--timeout",
         [&arguments](const std::string& text) {
           if (!absl::ParseDuration(text, &arguments.timeout) ||
               arguments.timeout <= absl::ZeroDuration()) {
             throw CLI::ValidationError(
                 "--timeout", "'" + text + "' is not a duration, for example 500ms, 30s or 2h");
           }
           arguments.timeout_given = true;
         },
         absl::StrCat(
             "Deadline of each call (default: ", absl::FormatDuration(arguments.timeout),
             "). For watch, wait, --wait and --follow: limit of the whole wait (default: none)"))
      ->type_name("DURATION");
}

void AddFailUnhealthy(CLI::App& command, Arguments& arguments) {
  command.add_flag("--fail-unhealthy", arguments.fail_unhealthy,
                   "While waiting: exit with code 1 as soon as the health of the job is failing. "
                   "The job continues");
}

void AddSubmit(CLI::App& app, Arguments& arguments) {
  CLI::App* submit = app.add_subcommand("submit",
                                        "Submit a job. Repeating the same name and spec returns "
                                        "the existing job, unless it failed or was cancelled");
  submit
      ->add_option("-f,--file", arguments.file, "Job spec in YAML or JSON; - reads standard input")
      ->type_name("FILE")
      ->required();
  submit
      ->add_option(
          "--set", arguments.overrides,
          "Change one value of the spec, for example --set sync.h=100; YAML, or plain text "
          "where the field is text; repeatable")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  submit
      ->add_option("--from", arguments.from,
                   "Start from the parameters of a checkpoint: JOB, JOB@STEP, or the folder of a "
                   "checkpoint or Hugging Face model. A local folder is uploaded unless the "
                   "coordinator already has it. Prefix here: or coordinator: to choose between a "
                   "local folder and one in the coordinator's --import-dir")
      ->type_name("JOB@STEP|DIR");
  submit
      ->add_option("--alone", arguments.alone,
                   "Train this pool alone, as the spec says but for the exchange, which changes "
                   "nothing of it: shows what the other pools bring. Adds -alone to the name, "
                   "unless --set name=... gives one")
      ->type_name("POOL");
  submit->add_option(
      "--token", arguments.token,
      "Idempotency token: repeating a call with the same token returns the job of the first call");
  submit->add_flag("--dry-run", arguments.dry_run,
                   "Check the spec and print the job with every default, without submitting it. "
                   "Works without a coordinator");
  submit->add_flag("--wait", arguments.wait,
                   "Wait until the job has ended; print progress on a terminal");
  submit->add_flag("--follow", arguments.follow,
                   "Like --wait, and print progress even without a terminal");
  AddFailUnhealthy(*submit, arguments);
}

void AddLogs(CLI::App& app, Arguments& arguments) {
  CLI::App* logs = app.add_subcommand("logs", "Show the newest log lines of a job's pools");
  logs->add_option("JOB", arguments.job, "Name or id of the job, or name of a pool")->required();
  logs->add_option("--tail", arguments.tail,
                   absl::StrCat("Number of newest lines to show for each pool (default: ",
                                arguments.tail, ")"))
      ->type_name("N")
      ->check(WholeNumber(0, 10000));
  logs->add_flag("--follow", arguments.follow, "Keep showing new lines as they are written");
}

void AddSpec(CLI::App& app, Arguments& arguments) {
  CLI::App* spec = app.add_subcommand("spec", "Explain the job spec, or print one to start from")
                       ->require_subcommand(1);
  spec->add_subcommand("explain", "Explain a field of the job spec, with its unit and default")
      ->add_option("PATH", arguments.path,
                   "Field, for example sync.up.codec; without it, the whole spec is explained");
  spec->add_subcommand("init", "Print a spec to start from")
      ->add_option("--from", arguments.spec_template,
                   absl::StrCat("One of ", absl::StrJoin(SpecTemplateNames(), ", "), " (",
                                arguments.spec_template, ")"))
      ->type_name("NAME")
      ->check(OneOf(SpecTemplateNames()));
}

void AddCerts(CLI::App& app, Arguments& arguments) {
  CLI::App* certs = app.add_subcommand("certs",
                                       "Create a private TLS authority (`certs init`), a "
                                       "certificate for each program (`certs issue`) or all that "
                                       "a site needs (`certs kit`)");
  certs->require_subcommand(1);
  certs
      ->add_option("--dir", arguments.certs_dir,
                   absl::StrCat("Folder of the authority (", arguments.certs_dir, ")"))
      ->type_name("FOLDER");
  certs
      ->add_option("--days", arguments.days,
                   absl::StrCat("Validity in days (default: init ", kAuthorityDays,
                                ", issue and kit ", kCertificateDays, ")"))
      ->type_name("N")
      ->check(WholeNumber(1, 36500));
  certs->add_subcommand("init",
                        "Create the authority: give ca.pem to every program, keep ca.key secret");
  CLI::App* issue = certs->add_subcommand("issue", "Create a certificate and its key");
  issue->add_option("KIND", arguments.certificate_kind, "pool, coordinator or user")
      ->required()
      ->check(OneOf({"pool", "coordinator", "user"}));
  issue
      ->add_option(
          "NAME", arguments.certificate_name,
          "Name of the pool or user; for a coordinator, the host name that clients connect to")
      ->required();
  issue
      ->add_option("--host", arguments.hosts,
                   "Another name or address that clients use for the coordinator; repeatable")
      ->type_name("HOST")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  CLI::App* kit = certs->add_subcommand(
      "kit", "Create an archive with the certificate and settings of a site's pool");
  kit->add_option("POOL", arguments.certificate_name, "Name of the pool")->required();
  kit->add_option("--coordinator", arguments.kit_coordinator,
                  "Address that the site's workers connect to")
      ->type_name("HOST:PORT")
      ->required();
  kit->add_option("--out", arguments.out, "New file for the archive (longhaul-POOL.tar.gz)")
      ->type_name("FILE");
  CLI::App* revoke = certs->add_subcommand(
      "revoke", "Shut out a pool or user before its certificate ends (--tls-crl)");
  revoke->add_option("NAME", arguments.certificate_name, "Name that its certificate was issued for")
      ->required();
}

void AddTokens(CLI::App& app, Arguments& arguments) {
  CLI::App* tokens =
      app.add_subcommand("tokens", "Create a token for a user of a coordinator (`tokens add`)");
  tokens->require_subcommand(1);
  CLI::App* add =
      tokens->add_subcommand("add", "Create a token, and add its digest to the file of users");
  add->add_option("NAME", arguments.user, "Name of the user")->required();
  add->add_option("ROLE", arguments.role, "viewer, submitter or admin")
      ->required()
      ->check(OneOf({"viewer", "submitter", "admin"}));
  add->add_option("--tokens", arguments.tokens_file,
                  absl::StrCat("File of users, which the coordinator reads (its --tokens); created "
                               "if it does not exist (default: ",
                               arguments.tokens_file, ")"))
      ->type_name("FILE");
  add->add_option("--out", arguments.out,
                  "New file for the token, which only this user of the machine can read (default: "
                  "NAME.token)")
      ->type_name("FILE");
}

void AddExport(CLI::App& app, Arguments& arguments) {
  CLI::App* command = app.add_subcommand("export", "Write a checkpoint as a Hugging Face model");
  command
      ->add_option(
          "JOB[@STEP]|CHECKPOINT_DIR", arguments.job,
          "Local folder of a checkpoint, or a job and a step (default: its newest checkpoint)")
      ->required();
  command->add_option("--out", arguments.out, "Folder to create")->type_name("DIR")->required();
  command
      ->add_option("--format", arguments.format,
                   "hf: the format that from_pretrained of transformers loads")
      ->check(OneOf({"hf"}));
  command->add_option("--dtype", arguments.dtype, "bf16 (half the bytes) or fp32 (exact)")
      ->check(OneOf({"bf16", "fp32"}));
  command
      ->add_option("--tokenizer", arguments.tokenizer,
                   "Hugging Face folder whose tokenizer files, generation_config.json and special "
                   "tokens are copied (default: the folder of model.hf, if it is local)")
      ->type_name("DIR");
  command->add_flag(
      "--last-commit", arguments.last_commit,
      "Export the last committed parameters of a running job instead of its newest checkpoint");
  command
      ->add_option("--cache", arguments.cache,
                   "Folder that keeps downloaded checkpoints for later calls (default: a temporary "
                   "folder next to --out)")
      ->type_name("DIR");
}

void AddData(CLI::App& app, DataArguments& data) {
  CLI::App* group = app.add_subcommand("data", "Check local training data");
  group->require_subcommand(1);
  CLI::App* check = group->add_subcommand(
      "check",
      "Show the format of files, count tokens and documents, show a sample and find damage");
  check->add_option("PATH", data.paths, "Files, folders or patterns")->required();
  check
      ->add_option("--format", data.format,
                   "auto (by content), text, jsonl, chat, nanogpt, llmc or megatron")
      ->check(OneOf({"auto", "text", "jsonl", "chat", "nanogpt", "llmc", "megatron"}));
  check->add_option("--field", data.field,
                    absl::StrCat("For JSONL: the field with the text (default: ", data.field, ")"));
  check
      ->add_option(
          "--tokenizer", data.tokenizer,
          "For text, JSONL and chat: tokenizer.json, SentencePiece model (not for chat), or "
          "a folder with one (default: bytes)")
      ->type_name("FILE");
  check
      ->add_option("--chat-template", data.chat_template,
                   "For chat: chat template (default: that of the tokenizer's folder)")
      ->type_name("FILE");
  check->add_flag("--control-tokens", data.control_tokens,
                  "For text and JSONL: control tokens that a text spells out become these tokens "
                  "(default: they stay text)");
  check->add_flag("--as-is", data.as_is,
                  "For text: the bytes of a file are text, whatever it seems to be");
  check
      ->add_option("--width", data.width,
                   "For token files without a header (nanogpt): bits of an id, 16, 32 or 64 "
                   "(default: 16, and refused where ids seem to be wider)")
      ->type_name("BITS")
      ->check(OneOf({"16", "32", "64"}));
  check
      ->add_option("--eos", data.eos, "Token after each document; counted in token files; -1: none")
      ->type_name("TOKEN")
      ->check(TokenNumber());
  check
      ->add_option("--bos", data.bos,
                   "Token before each document; counted in token files without --eos; -1: none")
      ->type_name("TOKEN")
      ->check(TokenNumber());
  check
      ->add_option("--line-mib-max", data.line_mib_max,
                   absl::StrCat("For JSONL and chat: the longest line, in MiB (default: ",
                                data.line_mib_max, ")"))
      ->type_name("N")
      ->check(WholeNumber(1, kLineMibMax));
  check
      ->add_option("--null-rows", data.null_rows,
                   "For JSONL: refuse or skip rows with null in place of text (default: refuse)")
      ->type_name("WHAT")
      ->check(OneOf({"refuse", "skip"}));
  check
      ->add_option("--vocab", data.vocab,
                   "Vocabulary size of the model: every token must be smaller")
      ->type_name("N")
      ->check(WholeNumber(1, int64_t{1} << 31));
  check
      ->add_option("--sample", data.sample,
                   absl::StrCat("Tokens to show of each file (default: ", data.sample, ")"))
      ->type_name("N")
      ->check(WholeNumber(0, 100000));
}

void AddCommands(CLI::App& app, Arguments& arguments) {
  AddSubmit(app, arguments);
  CLI::App* list = app.add_subcommand("list", "List jobs, newest first");
  list->add_option("--limit", arguments.limit,
                   absl::StrCat("Show at most this many jobs (default: ", arguments.limit, ")"))
      ->type_name("N")
      ->check(WholeNumber(1, 100000));
  list->add_flag("--names", arguments.names, "Print only names, one per line");
  AddJobCommand(app, arguments, "get", "Show a job");
  AddFailUnhealthy(
      *AddJobCommand(app, arguments, "watch", "Show the progress of a job until it has ended"),
      arguments);
  AddFailUnhealthy(
      *AddJobCommand(app, arguments, "wait",
                     "Wait until a job has ended and show it; the exit code tells how it ended"),
      arguments);
  app.add_subcommand("top", "Show jobs and pools live in the terminal; q quits");
  AddLogs(app, arguments);
  AddJobCommand(app, arguments, "cancel", "Stop a job permanently; its last commit is kept")
      ->add_option("--reason", arguments.reason, "Reason to record with the job");
  AddPauseCommands(app, arguments);
  AddJobCommand(app, arguments, "checkpoints", "List the checkpoints of a job");
  AddResultCommands(app, arguments);
  app.add_subcommand("compare", "Compare the losses and specs of jobs, or plot those of one job")
      ->add_option("JOB", arguments.jobs, "Names or ids of the jobs")
      ->required();
  AddExport(app, arguments);
  // Their options are those of longhaul-lm, which gets the words as they are.
  for (const auto& [name, about] :
       {std::pair("eval", "Loss of a job's checkpoint, or of a Hugging Face model"),
        std::pair("sample",
                  "Continue a prompt with a job's checkpoint, or a Hugging Face model")}) {
    CLI::App* command = app.add_subcommand(name, about);
    command->fallthrough(false)->prefix_command();
    command->set_help_flag();
  }
  AddSpec(app, arguments);
  AddData(app, arguments.data);
  AddGraph(app, arguments);
  AddPlan(app, arguments);
  AddSimulate(app, arguments);
  app.add_subcommand("pools", "List pools");
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "Find problems with this machine, the coordinator and the connection to it, or with the "
      "training of a job");
  doctor->add_option("JOB", arguments.job,
                     "Name or id of a job: show what is wrong with it. The exit code is 1 if its "
                     "health is failing, or if it has failed");
  doctor
      ->add_option("--data-dir", arguments.data_dir,
                   "Folder whose free space is checked (default: the current folder)")
      ->type_name("DIR");
  app.add_subcommand("contexts", "List the coordinators in your configuration file")
      ->add_flag("--names", arguments.names, "Print only names, one per line");
  AddCerts(app, arguments);
  AddTokens(app, arguments);
  app.add_subcommand("version", "Show the version of this program");
  app.add_subcommand("completion", "Print a completion script: source <(longhaul completion bash)")
      ->add_option("SHELL", arguments.shell, "bash, zsh or fish")
      ->required()
      ->check(OneOf({"bash", "zsh", "fish"}));
}

// The order of the groups, and of the commands in each, is that of the help page.
constexpr std::pair<const char*, const char*> kGroups[] = {
    {"Jobs", "submit list get watch wait top logs events pause resume cancel delete"},
    {"Results", "compare checkpoints checkpoint download export eval sample"},
    {"Specs and data", "spec data graph plan simulate"},
    {"Pools and this machine", "pools doctor contexts certs tokens version completion"},
};

// Groups the commands of the help page. One that no group names comes last.
void GroupCommands(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    command->group("Others");
    for (const auto& [group, names] : kGroups) {
      const std::vector<std::string> all = absl::StrSplit(names, ' ');
      if (std::find(all.begin(), all.end(), command->get_name()) != all.end())
        command->group(group);
    }
  }
}

// Below the help of each command. `prefix`: the names of the commands around, each with a space.
void AddExamples(CLI::App& app, const std::string& prefix) {
  for (CLI::App* command : app.get_subcommands({})) {
    const std::string name = prefix + command->get_name();
    if (const std::string text = ExamplesText(name); !text.empty()) {
      command->footer(absl::StrCat(
          text, "\n\n",
          prefix == "certs " ? "`longhaul certs --help` shows its other options: --dir and --days."
                             : "`longhaul --help` shows the options of every command."));
    }
    AddExamples(*command, name + " ");
  }
}

}  // namespace

CLI::App* AddJobCommand(CLI::App& app, Arguments& arguments, const char* name, const char* about) {
  CLI::App* command = app.add_subcommand(name, about);
  command->add_option("JOB", arguments.job, "Name or id of the job")->required();
  return command;
}

std::unique_ptr<CLI::App> MakeApp(Arguments& arguments) {
  auto app = std::make_unique<CLI::App>("Submits and follows Longhaul jobs; checks their data.",
                                        "longhaul");
  SetHelpPage(*app);
  app->fallthrough();  // Global options may follow the command.
  app->require_subcommand(1);
  app->footer(kFooter + 1);
  AddGlobalOptions(*app, arguments);
  AddCommands(*app, arguments);
  AddExamples(*app, "");
  GroupCommands(*app);
  return app;
}

namespace {

// CLI11 would read the brackets of a path "[old]" of `data check` as those of a list.
std::vector<std::string> WithPlainPaths(std::vector<std::string> args) {
  const std::string command[] = {"data", "check"};
  const auto begin = std::search(args.begin(), args.end(), std::begin(command), std::end(command));
  for (auto word = begin; word != args.end(); ++word) {
    if (absl::StartsWith(*word, "[") && absl::EndsWith(*word, "]")) word->insert(0, "./");
  }
  return args;
}

CliError ExplainToUser(const CLI::App& app, const CLI::ParseError& error,
                       const std::vector<std::string>& args) {
  UsageFault fault = ExplainUsage(app, error, args);
  const bool words = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                     dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const std::vector<std::string> stray = app.remaining(true);
  if (!words || stray.empty()) return UsageError(std::move(fault.message), std::move(fault.hint));
  if (std::string hint = OtherWordHint(app, args); !hint.empty()) {
    fault.hint = std::move(hint);
    // `longhaul job get` lacks no JOB: it is no command.
    if (!absl::StartsWith(stray[0], "-") && stray[0] == args[0])
      fault.message = absl::StrCat("no such command: ", stray[0]);
  }
  return UsageError(std::move(fault.message), std::move(fault.hint));
}

}  // namespace

std::variant<Arguments, Help, CliError> ParseArguments(const std::vector<std::string>& args) {
  Arguments arguments;
  const std::unique_ptr<CLI::App> app = MakeApp(arguments);
  try {  // CLI11 reports by exceptions; this is the one call boundary.
    ParseCommandLine(*app, WithPlainPaths(args));
  } catch (const CLI::CallForHelp&) {
    const std::vector<std::string> unknown = app->remaining(true);
    if (unknown.empty() || !app->get_subcommands().empty()) return Help{app->help()};
    return ExplainToUser(*app, CLI::ExtrasError(unknown), args);
  } catch (const CLI::CallForVersion&) {
    Arguments version;
    version.command = "version";
    version.output = OutputFormatOf(args);
    return version;
  } catch (const CLI::ParseError& e) {
    return ExplainToUser(*app, e, args);
  }
  for (const CLI::App* at = app.get(); !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    absl::StrAppend(&arguments.command, arguments.command.empty() ? "" : " ", at->get_name());
  }
  // A live table calls again and again. A key press must not wait long for a coordinator that is
  // silent. A dry run needs no coordinator, so it does not wait long for one.
  const bool brief = arguments.command == "top" || arguments.dry_run;
  if (brief && !arguments.timeout_given) arguments.timeout = absl::Seconds(5);
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
