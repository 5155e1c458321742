// longhaul-lm: uses a model that was trained, or that lies in a Hugging Face folder. Apart from the
// ranks the only program that loads torch; `longhaul eval`, `longhaul sample` and `longhaul graph
// predict` start it.
#include <algorithm>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/escaped_text.h"
#include "common/base/file_limit.h"
#include "common/base/jsonl_line.h"
#include "common/base/status_hint.h"
#include "common/command_line/help_page.h"
#include "common/command_line/output_end.h"
#include "common/command_line/standard_files.h"
#include "common/command_line/usage_fault.h"
#include "common/command_line/value_checks.h"
#include "worker/lm/commands.h"
#include "worker/lm/work_folder.h"

namespace longhaul {
namespace {

using Json = nlohmann::ordered_json;

enum Exit { kOk = 0, kFailed = 1, kUsage = 4 };  // As the CLI's.

struct Options {
  EvalArguments eval;
  SampleArguments sample;
  LogitsArguments logits;
  PredictArguments predict;
  std::string form = "table";
  int threads = 1;
  bool greedy = false, separate = false, joined = false;  // Of sample; of eval.
};

CLI::App* AddCommand(CLI::App& app, const char* name, const char* about, std::string& model) {
  CLI::App* command = app.add_subcommand(name, about);
  command
      ->add_option("MODEL", model,
                   "Folder of a checkpoint or of a Hugging Face model; in `longhaul` also JOB or "
                   "JOB@STEP, whose checkpoint is downloaded")
      ->type_name("")
      ->required();
  return command;
}

void AddEval(CLI::App& app, Options& options) {
  EvalArguments& arguments = options.eval;
  CLI::App* eval = AddCommand(app, "eval", "Loss, perplexity and bits per byte", arguments.model);
  eval->add_option("--data", arguments.data,
                   "Text, JSONL, chat or token files; a folder or a pattern")
      ->type_name("PATH")
      ->required();
  eval->add_option("--format", arguments.format,
                   "text, jsonl, chat, nanogpt, llmc or megatron (default: by name and content)")
      ->type_name("FORMAT")
      ->check(OneOf({"text", "jsonl", "chat", "nanogpt", "llmc", "megatron"}));
  eval->add_option(
          "--field", arguments.field,
          absl::StrCat("For JSONL: the field with the text (default: ", arguments.field, ")"))
      ->type_name("NAME");
  CLI::Option* const bytes = eval->add_flag(
      "--bytes", arguments.bytes, "Tokens of text are bytes, though the vocabulary is not 256");
  eval->add_option(
          "--tokenizer", arguments.tokenizer,
          "For text, JSONL and chat: tokenizer.json, SentencePiece model (not for chat), or "
          "a folder with one (default: the model's own)")
      ->type_name("PATH")
      ->excludes(bytes);
  eval->add_option("--chat-template", arguments.chat_template,
                   "For chat: chat template (default: that of the tokenizer's folder)")
      ->type_name("PATH");
  eval->add_option("--context", arguments.context,
                   "Tokens per sequence (default: the context of the model)")
      ->type_name("N")
      ->check(WholeNumber(1, 1 << 20));
  eval->add_option("--max-tokens", arguments.tokens_max,
                   "Evaluate only this many tokens, from the beginning (default: all)")
      ->type_name("N")
      ->check(WholeNumber(1, int64_t{1} << 50));
  CLI::Option* const separate =
      eval->add_flag("--separate-documents", options.separate,
                     "Attention stays within documents, as in jobs with data.separate_documents "
                     "(default: as the model was trained)");
  eval->add_flag("--joined-documents", options.joined, "Attention crosses documents")
      ->excludes(separate);
  eval->add_option("--eos", arguments.eos,
                   "Token after each document: present in token files, added to text and JSONL "
                   "(default: the tokenizer's; -1: none)")
      ->type_name("TOKEN")
      ->check(TokenNumber());
  eval->add_option("--bos", arguments.bos,
                   "Token before each document: present in token files, added to text and JSONL "
                   "(default: none)")
      ->type_name("TOKEN")
      ->check(TokenNumber());
  eval->add_option("--line-mib-max", arguments.line_mib_max,
                   absl::StrCat("For JSONL and chat: the longest line, in MiB (default: ",
                                arguments.line_mib_max, ")"))
      ->type_name("N")
      ->check(WholeNumber(1, kLineMibMax));
  eval->add_option("--null-rows", arguments.null_rows,
                   "For JSONL: refuse or skip rows with null in place of text (default: refuse)")
      ->type_name("WHAT")
      ->check(OneOf({"refuse", "skip"}));
}

void AddSample(CLI::App& app, SampleArguments& arguments, bool& greedy) {
  CLI::App* sample = AddCommand(
      app, "sample", "Continue a prompt; text is printed as it is generated", arguments.model);
  CLI::Option* const prompt =
      sample->add_option("--prompt", arguments.prompt, "Text to continue")->type_name("TEXT");
  sample
      ->add_option("--prompt-tokens", arguments.prompt_tokens,
                   "Token ids to continue, for example 1,5,7")
      ->type_name("TOKENS")
      ->delimiter(',')
      ->check(WholeNumber(0, int64_t{1} << 40))
      ->excludes(prompt);
  CLI::Option* const bytes = sample->add_flag("--bytes", arguments.bytes,
                                              "Tokens are bytes, though the vocabulary is not 256");
  sample
      ->add_option(
          "--tokenizer", arguments.tokenizer,
          "tokenizer.json, SentencePiece model, or a folder with one (default: the model's own)")
      ->type_name("PATH")
      ->excludes(bytes);
  sample
      ->add_option(
          "--max-tokens", arguments.tokens_max,
          absl::StrCat("Maximum number of tokens to add (default: ", arguments.tokens_max, ")"))
      ->type_name("N")
      ->check(WholeNumber(1, 1 << 20));
  CLI::Option* const temperature =
      sample
          ->add_option(
              "--temperature", arguments.sampling.temperature,
              absl::StrCat("Temperature, above 0 (default: ", arguments.sampling.temperature, ")"))
          ->type_name("T")
          ->check(Number(1e-3, 1e3));
  sample
      ->add_option(
          "--top-p", arguments.sampling.top_p,
          absl::StrCat(
              "Choose among the most probable tokens with this total probability (default: ",
              arguments.sampling.top_p, ")"))
      ->type_name("P")
      ->check(Number(1e-6, 1));
  sample->add_flag("--greedy", greedy, "Always choose the most probable token")
      ->excludes(temperature);
  sample
      ->add_option("--seed", arguments.seed,
                   absl::StrCat("Seed of the random choice (default: ", arguments.seed, ")"))
      ->type_name("N")
      ->check(WholeNumber(0, std::numeric_limits<int64_t>::max()));
}

void AddLogits(CLI::App& app, LogitsArguments& arguments) {
  CLI::App* logits =
      AddCommand(app, "logits", "Logits after every token of a sequence", arguments.model);
  logits->add_option("--tokens", arguments.tokens, "int32, little-endian")
      ->type_name("FILE")
      ->required();
  logits
      ->add_option("--eos", arguments.eos,
                   "Token after each document; attention then stays within documents")
      ->type_name("TOKEN")
      ->check(TokenNumber());
  logits->add_option("--out", arguments.out, "float32 [tokens, vocab], little-endian")
      ->type_name("FILE")
      ->required();
}

void AddPredict(CLI::App& app, PredictArguments& arguments) {
  CLI::App* const group = app.add_subcommand("graph", "Use graph models");
  group->require_subcommand(1);
  CLI::App* const predict = group->add_subcommand(
      "predict",
      "Predict the classes of a graph's nodes, or links, with the checkpoint of a job: "
      "probabilities and embeddings, with your own ids");
  predict
      ->add_option(
          "MODEL", arguments.model,
          "Folder of a checkpoint; in `longhaul` also JOB or JOB@STEP, whose checkpoint is "
          "downloaded")
      ->type_name("")
      ->required();
  predict->add_option("--graph", arguments.graph, "Folder that `longhaul graph import` made")
      ->type_name("DIR")
      ->required();
  predict
      ->add_option("--out", arguments.out,
                   "Folder for the result, which must not exist: predictions.csv (id, class, "
                   "probability), nodes.npy, probabilities.npy and embeddings.npy; for links "
                   "ids.csv, embeddings.npy, predictions.csv (source, target, score, probability) "
                   "and scores.npy")
      ->type_name("DIR")
      ->required();
  CLI::Option* const split =
      predict
          ->add_option("--split", arguments.split,
                       "Nodes to predict: all, train, valid or test (default: all). For links: the "
                       "graph's own pairs to score (default: none)")
          ->type_name("NAME")
          ->check(OneOf({"all", "train", "valid", "test"}));
  predict
      ->add_option("--pairs", arguments.pairs,
                   "For links: pairs source, target to score, by your own ids if the import read "
                   "some (--ids), otherwise by the nodes' numbers: .npy or CSV without a heading")
      ->type_name("FILE")
      ->excludes(split);
  predict->add_flag("--embeddings", arguments.embeddings,
                    "Also write embeddings.npy: what the last layer reads of each node. For links "
                    "it is always written: what the last layer gives");
}

void AddSharedOptions(CLI::App& command, Options& options) {
  command
      .add_option("--threads", options.threads, "Threads of the computation (default: all cores)")
      ->type_name("N")
      ->check(WholeNumber(1, 1024));
  command.add_option("-o,--output", options.form, "Output format: table or json")
      ->type_name("FORM")
      ->check(OneOf({"table", "json"}));
}

absl::StatusOr<Json> RunLm(const std::string& command, Options& options) {
  if (command == "eval") {
    options.eval.threads = options.threads;
    if (options.separate || options.joined) options.eval.separate_documents = options.separate;
    return Evaluate(options.eval);
  }
  if (command == "predict") {
    options.predict.threads = options.threads;
    return Predict(options.predict);
  }
  if (command == "logits") {
    options.logits.threads = options.threads;
    return WriteLogits(options.logits);
  }
  options.sample.threads = options.threads;
  if (options.greedy) options.sample.sampling.temperature = 0;
  // With JSON the text is part of it.
  std::ostringstream text;
  const bool json = options.form == "json";
  absl::StatusOr<Json> result = Sample(options.sample, json ? text : std::cout);
  if (json && result.ok()) {
    // What is not UTF-8 (bytes may be anything) is replaced.
    (*result)["text"] =
        Json::parse(Json(text.str()).dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return result;
}

// The CLI's form of an error.
void TellError(bool json, const absl::Status& status, const std::string& hint) {
  const std::string code = absl::StatusCodeToString(status.code());
  const std::string message(status.message());
  if (json) {
    const Json envelope = {
        {"schema_version", 1},
        {"status", "error"},
        {"error",
         {{"code", code}, {"message", message}, {"hint", hint}, {"fields", Json::array()}}}};
    std::cout << envelope.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  std::cerr << "error: " << EscapedLine(message) << " (" << code << ")\n";
  if (!hint.empty()) std::cerr << "hint: " << EscapedLine(hint) << "\n";
  std::cerr << std::flush;
}

// The value of the table: figures that people read have few digits.
std::string CellOf(const Json& value) {
  if (value.is_number_float()) return absl::StrFormat("%.4f", value.get<double>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return EscapedLine(value.get<std::string>());
  if (!value.is_array()) return value.dump();
  std::vector<std::string> cells;
  for (const Json& element : value) cells.push_back(CellOf(element));
  return absl::StrJoin(cells, ", ");
}

int Tell(const std::string& command, const std::string& form, const absl::StatusOr<Json>& result) {
  if (form == "json" && result.ok()) {
    const Json envelope = {{"schema_version", 1}, {"status", "ok"}, {"data", *result}};
    // A result may name a file whose name is not UTF-8.
    std::cout << envelope.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  if (!result.ok()) {
    TellError(form == "json", result.status(), HintIn(result.status()));
    const bool usage =
        absl::IsInvalidArgument(result.status()) || absl::IsNotFound(result.status()) ||
        absl::IsAlreadyExists(result.status()) || absl::IsPermissionDenied(result.status()) ||
        absl::IsUnimplemented(result.status());
    return usage ? kUsage : kFailed;
  }
  if (form == "json") return kOk;
  if (command == "sample") {
    std::cout << std::endl;
    std::cerr << (*result)["tokens"].size() << " tokens, "
              << absl::StrFormat("%.1f", (*result)["tokens_per_second"].get<double>())
              << " per second" << std::endl;
    return kOk;
  }
  for (const auto& [name, value] : result->items()) {
    if (!value.is_null())
      std::cout << absl::StrFormat("%-18s", name) << "  " << CellOf(value) << "\n";
  }
  return kOk;
}

// Whether -o json is among words that may have any fault.
bool AsksForJson(const std::vector<std::string>& args) {
  bool json = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool apart = (args[i] == "-o" || args[i] == "--output") && i + 1 < args.size();
    json = json || args[i] == "--output=json" || args[i] == "-ojson" ||
           (apart && args[i + 1] == "json");
  }
  return json;
}

int Main(int argc, char** argv) {
  Options options;
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  // `longhaul eval` and `longhaul sample` start this program by their own name.
  const bool of_cli = argc > 0 && absl::string_view(argv[0]) == "longhaul";
  CLI::App app{"Evaluates, samples and compares models.", of_cli ? "longhaul" : "longhaul-lm"};
  SetHelpPage(app);
  app.require_subcommand(1);
  AddEval(app, options);
  AddSample(app, options.sample, options.greedy);
  AddLogits(app, options.logits);
  // Each command's page shows them, since `longhaul --help` does not.
  for (CLI::App* command : app.get_subcommands({})) AddSharedOptions(*command, options);
  AddPredict(app, options.predict);
  AddSharedOptions(*app.get_subcommand("graph")->get_subcommand("predict"), options);
  const std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
  try {  // CLI11 reports by exceptions; this is the one call boundary.
    ParseCommandLine(app, args);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const UsageFault fault = ExplainUsage(app, error, args);
    TellError(AsksForJson(args), absl::InvalidArgumentError(fault.message), fault.hint);
    return kUsage;
  }
  const CLI::App* chosen = app.get_subcommands().front();
  if (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  const std::string command = chosen->get_name();
  return Tell(command, options.form, RunLm(command, options));
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  longhaul::KeepStandardFiles();
  longhaul::EndOnStopSignals();
  longhaul::IgnoreFileSizeSignal();
  // Each file of its data stays open.
  longhaul::RaiseFileLimit();
  longhaul::EndProgram(longhaul::ExitAfterOutput(longhaul::Main(argc, argv), std::cout, std::cerr));
}
