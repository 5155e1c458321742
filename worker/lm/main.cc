// longhaul-lm: uses a model that was trained, or that lies in a Hugging Face folder. Apart from the
// ranks the only program that loads torch; `longhaul eval` and `longhaul sample` start it.
#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/jsonl_line.h"
#include "worker/lm/commands.h"

namespace longhaul {
namespace {

using Json = nlohmann::ordered_json;

enum Exit { kOk = 0, kFailed = 1, kUsage = 4 };  // As the CLI's.

struct Options {
  EvalArguments eval;
  SampleArguments sample;
  LogitsArguments logits;
  std::string form = "table";
  int threads = 1;
  bool greedy = false, separate = false, joined = false;  // Of sample; of eval.
};

CLI::App* AddCommand(CLI::App& app, const char* name, const char* about, std::string& model) {
  CLI::App* command = app.add_subcommand(name, about);
  command->add_option("MODEL", model, "Folder of a checkpoint, or of a Hugging Face model")
      ->required();
  return command;
}

void AddEval(CLI::App& app, Options& options) {
  EvalArguments& arguments = options.eval;
  CLI::App* eval = AddCommand(app, "eval", "Loss, perplexity and bits a byte", arguments.model);
  eval->add_option("--data", arguments.data, "Text, JSONL or token files; a folder or a pattern")
      ->type_name("PATH")
      ->required();
  eval->add_option("--format", arguments.format,
                   "text, jsonl, nanogpt, llmc or megatron (what name and content say)")
      ->check(CLI::IsMember({"text", "jsonl", "nanogpt", "llmc", "megatron"}).description(""));
  eval->add_option("--field", arguments.field,
                   absl::StrCat("Of JSONL: the field with the text (", arguments.field, ")"));
  CLI::Option* const bytes = eval->add_flag(
      "--bytes", arguments.bytes, "Tokens of text are bytes, though the vocabulary is not 256");
  eval->add_option("--tokenizer", arguments.tokenizer,
                   "Of text and JSONL: tokenizer.json, SentencePiece model, or a folder with one "
                   "(the model's own)")
      ->type_name("PATH")
      ->excludes(bytes);
  eval->add_option("--context", arguments.context, "Tokens of a sequence (the model's own)")
      ->check(CLI::Range(1, 1 << 20).description(""));
  eval->add_option("--max-tokens", arguments.tokens_max,
                   "Evaluate only this many tokens, from the beginning (all)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50).description(""));
  CLI::Option* const separate = eval->add_flag(
      "--separate-documents", options.separate,
      "Attention keeps to documents, as in jobs with data.separate_documents (as the "
      "model was trained)");
  eval->add_flag("--joined-documents", options.joined, "Attention does not keep to documents")
      ->excludes(separate);
  eval->add_option("--eos", arguments.eos,
                   "Token behind each document: of token files; or that text and JSONL get (the "
                   "tokenizer's; -1: none)")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40).description(""));
  eval->add_option("--bos", arguments.bos,
                   "Token before each document: of token files; or that text and JSONL get (none)")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40).description(""));
  eval->add_option(
          "--line-mib-max", arguments.line_mib_max,
          absl::StrCat("Of JSONL: the longest line, in MiB (", arguments.line_mib_max, ")"))
      ->check(CLI::Range(1, kLineMibMax).description(""));
}

void AddSample(CLI::App& app, SampleArguments& arguments, bool& greedy) {
  CLI::App* sample =
      AddCommand(app, "sample", "Continue a prompt; text appears as it is made", arguments.model);
  CLI::Option* const prompt = sample->add_option("--prompt", arguments.prompt, "Text to continue");
  sample->add_option("--prompt-tokens", arguments.prompt_tokens, "Token ids to continue, as 1,5,7")
      ->delimiter(',')
      ->excludes(prompt);
  CLI::Option* const bytes = sample->add_flag("--bytes", arguments.bytes,
                                              "Tokens are bytes, though the vocabulary is not 256");
  sample
      ->add_option("--tokenizer", arguments.tokenizer,
                   "tokenizer.json, SentencePiece model, or a folder with one (the model's own)")
      ->type_name("PATH")
      ->excludes(bytes);
  sample
      ->add_option("--max-tokens", arguments.tokens_max,
                   absl::StrCat("Tokens to add, at most (", arguments.tokens_max, ")"))
      ->check(CLI::Range(1, 1 << 20).description(""));
  CLI::Option* const temperature =
      sample
          ->add_option("--temperature", arguments.sampling.temperature,
                       absl::StrCat("Above 0 (", arguments.sampling.temperature, ")"))
          ->check(CLI::Range(1e-3, 1e3).description(""));
  sample
      ->add_option(
          "--top-p", arguments.sampling.top_p,
          absl::StrCat("Choose among the most probable tokens that have this probability (",
                       arguments.sampling.top_p, ")"))
      ->check(CLI::Range(1e-6, 1.0).description(""));
  sample->add_flag("--greedy", greedy, "Always the most probable token")->excludes(temperature);
  sample->add_option("--seed", arguments.seed,
                     absl::StrCat("Seed of the random choice (", arguments.seed, ")"));
}

void AddLogits(CLI::App& app, LogitsArguments& arguments) {
  CLI::App* logits =
      AddCommand(app, "logits", "Logits behind every token of a sequence", arguments.model);
  logits->add_option("--tokens", arguments.tokens, "int32, little-endian")
      ->type_name("FILE")
      ->required();
  logits
      ->add_option("--eos", arguments.eos,
                   "Token behind each document, to which attention keeps then")
      ->type_name("TOKEN");
  logits->add_option("--out", arguments.out, "float32 [tokens, vocab], little-endian")
      ->type_name("FILE")
      ->required();
}

absl::StatusOr<Json> RunLm(const std::string& command, Options& options) {
  if (command == "eval") {
    options.eval.threads = options.threads;
    if (options.separate || options.joined) options.eval.separate_documents = options.separate;
    return Evaluate(options.eval);
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

int Tell(const std::string& command, const std::string& form, const absl::StatusOr<Json>& result) {
  if (form == "json") {
    Json envelope = {{"schema_version", 1}, {"status", result.ok() ? "ok" : "error"}};
    if (result.ok()) {
      envelope["data"] = *result;
    } else {
      envelope["error"] = {{"code", absl::StatusCodeToString(result.status().code())},
                           {"message", std::string(result.status().message())},
                           {"hint", ""}};
    }
    // A message may name a file whose name is not UTF-8.
    std::cout << envelope.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  if (!result.ok()) {
    std::cerr << "error: " << result.status().message() << std::endl;
    const bool usage = absl::IsInvalidArgument(result.status()) ||
                       absl::IsNotFound(result.status()) || absl::IsUnimplemented(result.status());
    return usage ? kUsage : kFailed;
  }
  if (form == "json") return kOk;
  if (command == "sample") {
    std::cout << std::endl;
    std::cerr << (*result)["tokens"].size() << " tokens, "
              << (*result)["tokens_per_second"].get<double>() << " a second" << std::endl;
    return kOk;
  }
  for (const auto& [name, value] : result->items()) {
    if (!value.is_null()) std::cout << name << "  " << value.dump() << "\n";
  }
  std::cout << std::flush;
  return std::cout.good() ? kOk : kFailed;
}

int Main(int argc, char** argv) {
  Options options;
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  CLI::App app{"Evaluates, samples and compares models.", "longhaul-lm"};
  app.fallthrough();
  app.require_subcommand(1);
  app.add_option("--threads", options.threads, "Of the computation (all cores)")
      ->check(CLI::Range(1, 1024).description(""));
  app.add_option("-o,--output", options.form, "Form of the data: table or json")
      ->check(CLI::IsMember({"table", "json"}).description(""));
  AddEval(app, options);
  AddSample(app, options.sample, options.greedy);
  AddLogits(app, options.logits);
  try {  // CLI11 reports by exceptions; this is the one call boundary.
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  const std::string command = app.get_subcommands().front()->get_name();
  return Tell(command, options.form, RunLm(command, options));
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) { return longhaul::Main(argc, argv); }
