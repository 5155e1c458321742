// SentencePiece and Hugging Face tokenizers, each in processes of its own.
#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/program_beside.h"
#include "common/base/status_macros.h"
#include "worker/data/python_tokenizer.h"
#include "worker/data/tokenizer.h"
#include "worker/data/tokenizer_process.h"
#include "worker/data/tokenizer_protocol.h"

namespace longhaul {
namespace {

// Of text, for a process at once. A Hugging Face tokenizer shares a run among threads of its own.
constexpr size_t kPieceRunBytes = 1 << 16, kHfRunBytes = 2 << 20;
class PieceTokenizer : public Tokenizer {
 public:
  // `run_bytes`: of text, for a process at once.
  PieceTokenizer(std::string identity, TokenizerProcess::Greeting greeting, size_t run_bytes,
                 std::vector<TokenizerProcess> processes, std::vector<std::string> control_tokens)
      : identity_(std::move(identity)),
        control_tokens_(std::move(control_tokens)),
        greeting_(greeting),
        run_bytes_(run_bytes),
        processes_(std::move(processes)) {}

  int64_t vocab() const override { return greeting_.vocab; }
  int64_t eos() const override { return greeting_.eos; }
  std::string identity() const override { return identity_; }
  std::vector<std::string> control_tokens() const override { return control_tokens_; }

  absl::Status Encode(absl::Span<const std::string> texts,
                      std::vector<std::vector<int32_t>>& tokens) override {
    tokens.assign(texts.size(), {});
    // Each process takes the next texts when it is done with those before.
    std::vector<std::pair<size_t, size_t>> runs = Cut(texts);
    std::vector<absl::Status> ends(processes_.size());
    std::atomic<size_t> next = 0;
    const auto work = [&](size_t p) {
      for (size_t run; ends[p].ok() && (run = next.fetch_add(1)) < runs.size();) {
        const auto [first, count] = runs[run];
        ends[p] = processes_[p].Encode(texts.subspan(first, count),
                                       absl::MakeSpan(tokens).subspan(first, count));
      }
    };
    std::vector<std::thread> threads;
    for (size_t p = 1; p < std::min(processes_.size(), runs.size()); ++p)
      threads.emplace_back(work, p);
    work(0);
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& end : ends) LH_RETURN_IF_ERROR(end);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) override {
    return processes_.front().Decode(tokens);
  }

 private:
  std::vector<std::pair<size_t, size_t>> Cut(absl::Span<const std::string> texts) const {
    std::vector<std::pair<size_t, size_t>> runs;
    for (size_t first = 0; first < texts.size();) {
      size_t end = first, bytes = 0;
      while (end < texts.size() && bytes < run_bytes_ && end - first < kPiecesTextsMax)
        bytes += texts[end++].size();
      runs.emplace_back(first, end - first);
      first = end;
    }
    return runs;
  }

  const std::string identity_;
  const std::vector<std::string> control_tokens_;
  const TokenizerProcess::Greeting greeting_;
  const size_t run_bytes_;
  std::vector<TokenizerProcess> processes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> StartPieceTokenizer(
    const PieceTokenizerOptions& options) {
  constexpr char kName[] = "longhaul-sentencepiece";
  const std::string program = options.program.empty() ? ProgramBeside(kName) : options.program;
  LH_ASSIGN_OR_RETURN(const std::string digest, DigestOfPresentFile(options.model));
  std::vector<std::string> command = {program, options.model};
  if (!options.end_token.empty() || options.end_id.has_value()) {
    command.push_back(options.end_token);
    command.push_back(absl::StrCat(options.end_id.value_or(kNoToken)));
  }
  std::vector<TokenizerProcess> processes;
  for (int i = 0; i < std::max(1, options.processes); ++i) {
    LH_ASSIGN_OR_RETURN(TokenizerProcess process, TokenizerProcess::Start(command, kName));
    processes.push_back(std::move(process));
  }
  TokenizerProcess::Greeting greeting;
  for (TokenizerProcess& process : processes) {
    const absl::StatusOr<TokenizerProcess::Greeting> said = process.Greet();
    if (absl::IsInvalidArgument(said.status())) {
      return absl::InvalidArgumentError(
          absl::StrCat(options.model, ": is not a SentencePiece model: ", said.status().message()));
    }
    LH_RETURN_IF_ERROR(said.status());
    greeting = *said;
  }
  LH_ASSIGN_OR_RETURN(std::vector<std::string> control, processes.front().ControlTokens());
  return std::make_unique<PieceTokenizer>(absl::StrCat("sentencepiece ", digest), greeting,
                                          kPieceRunBytes, std::move(processes), std::move(control));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> StartHfTokenizer(const HfTokenizerOptions& options) {
  const std::string& path = options.path;
  LH_ASSIGN_OR_RETURN(const std::string digest, DigestOfPresentFile(path));
  std::vector<std::string> command = PythonTokenizerCommand(path, options.threads);
  if (!options.special_tokens) command.push_back("--no-special-tokens");
  const bool control_tokens = options.control_tokens || options.special_tokens;
  if (control_tokens) command.push_back("--control-tokens");
  TokenizerProcess::Greeting greeting;
  LH_ASSIGN_OR_RETURN(TokenizerProcess process,
                      StartPythonTokenizer(path, command, "tokenize", greeting));
  // An earlier version of the package does not know the question, and makes control tokens of text.
  absl::StatusOr<std::vector<std::string>> control = process.ControlTokens();
  if (!control.ok()) {
    return absl::NotFoundError(absl::StrCat(path, ": Python's longhaul is of another version: ",
                                            HowToInstallPythonTokenizer("tokenize")));
  }
  std::vector<TokenizerProcess> processes;
  processes.push_back(std::move(process));
  // Tokens that an earlier version kept have control tokens.
  return std::make_unique<PieceTokenizer>(
      absl::StrCat("tokenizers ", digest, control_tokens ? "" : " text"), greeting, kHfRunBytes,
      std::move(processes), *std::move(control));
}

}  // namespace longhaul
