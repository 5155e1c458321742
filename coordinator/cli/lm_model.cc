#include "coordinator/cli/lm_model.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/config/checkpoint_name.h"
#include "coordinator/cli/arguments.h"
#include "coordinator/cli/checkpoint_source.h"
#include "coordinator/cli/connection.h"
#include "coordinator/cli/lm_program.h"

namespace longhaul::cli {
namespace {

// Of the CLI. --context is longhaul-lm's own.
constexpr const char* kConnectionOptions[] = {"--server",  "--tls-ca",     "--tls-certificate",
                                              "--tls-key", "--token-file", "--timeout"};
// The options of longhaul-lm that take no value.
constexpr const char* kLmFlags[] = {"--bytes", "--separate-documents", "--joined-documents",
                                    "--greedy", "--embeddings"};

template <typename Names>
bool IsOneOf(const Names& names, const std::string& word) {
  return std::find(std::begin(names), std::end(names), word) != std::end(names);
}

// "--server=X" and "-ojson".
bool HasItsValue(const std::string& option) {
  return absl::StrContains(option, '=') || (option.size() > 2 && option[1] != '-');
}

struct LmWords {
  std::vector<std::string> words, connection;
  // The index of the model in `words`. 0: none, which longhaul-lm explains.
  size_t model = 0;
};

LmWords SplitLmWords(const std::vector<std::string>& args) {
  const auto command = static_cast<size_t>(LmCommandWords(args));
  LmWords split{.words = {args.begin(), args.begin() + LmCommandWords(args)}};
  for (size_t i = command; i < args.size(); ++i) {
    const std::string& word = args[i];
    const bool option = word.size() > 1 && word[0] == '-';
    const bool value =
        option && !HasItsValue(word) && !IsOneOf(kLmFlags, word) && i + 1 < args.size();
    const bool connection = IsOneOf(kConnectionOptions, word.substr(0, word.find('=')));
    std::vector<std::string>& to = connection ? split.connection : split.words;
    if (!option && split.model == 0) split.model = split.words.size();
    to.push_back(word);
    if (value) to.push_back(args[++i]);
  }
  return split;
}

std::string CacheFolder(const Environment& environment) {
  const std::string home = environment.variable("HOME").value_or("");
  const std::string base =
      environment.variable("XDG_CACHE_HOME").value_or(home.empty() ? "" : home + "/.cache");
  return absl::StrCat(base.empty() ? "." : base, "/longhaul/checkpoints");
}

// `name` is a word that a user meant for a folder or for a job.
CliError NeitherFolderNorJob(CliError error, const std::string& name) {
  if (error.code == "NOT_FOUND") error.exit = ExitCode::kUsage;
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(name, ignored);
  error.message = absl::StrCat(folder ? absl::StrCat("the local folder ", name, " holds no model")
                                      : absl::StrCat("no local folder is named ", name),
                               "; as a job: ", error.message);
  return error;
}

}  // namespace

std::vector<std::string> WithLmCommandFirst(const std::vector<std::string>& args) {
  size_t command = 0;
  while (command < args.size() && absl::StartsWith(args[command], "-")) {
    const std::string& word = args[command];
    const std::string name = word.substr(0, word.find('='));
    const bool output = name == "--output" || absl::StartsWith(word, "-o");
    if (!output && !IsOneOf(kConnectionOptions, name)) return args;
    command += HasItsValue(word) ? 1 : 2;
  }
  if (command == 0 || command >= args.size()) return args;
  const auto begin = args.begin(), at = begin + static_cast<ptrdiff_t>(command);
  const int words = LmCommandWords({at, args.end()});
  if (words == 0) return args;
  std::vector<std::string> moved(at, at + words);
  moved.insert(moved.end(), begin, at);
  moved.insert(moved.end(), at + words, args.end());
  return moved;
}

std::variant<std::vector<std::string>, CliError> WithLocalModel(
    const std::vector<std::string>& args, const Environment& environment) {
  LmWords split = SplitLmWords(args);
  if (split.model == 0 || MeansFolder(split.words[split.model]) ||
      !ParseCheckpointName(split.words[split.model]).has_value()) {
    return std::move(split.words);
  }
  const std::string name = split.words[split.model];
  std::vector<std::string> words = {
      "export", name, "--out", CacheFolder(environment), "--cache", CacheFolder(environment)};
  words.insert(words.end(), split.connection.begin(), split.connection.end());
  std::variant<Arguments, Help, CliError> parsed = ParseArguments(words);
  if (auto* fault = std::get_if<CliError>(&parsed)) return std::move(*fault);
  const Arguments& arguments = std::get<Arguments>(parsed);
  const absl::StatusOr<Connection> connection = ConnectionOf(arguments, environment);
  if (!connection.ok()) return UsageError(std::string(connection.status().message()));
  absl::StatusOr<ClientAccess> access = AccessOf(*connection);
  if (!access.ok()) return UsageError(std::string(access.status().message()));
  if (const absl::Status able = environment.before_client(); !able.ok())
    return ErrorOf(able, ExitCode::kFailed);
  Client client(connection->server, arguments.timeout, *std::move(access));
  auto brought = BringCheckpoint(arguments, client, environment);
  if (auto* const failed = std::get_if<CliError>(&brought))
    return NeitherFolderNorJob(std::move(*failed), name);
  split.words[split.model] = std::get<LocalCheckpoint>(brought).folder;
  environment.err << "note: " << name << " is the checkpoint " << split.words[split.model]
                  << std::endl;
  return std::move(split.words);
}

}  // namespace longhaul::cli
