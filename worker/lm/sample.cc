#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/base/tokenizer_name.h"
#include "worker/data/text_stream.h"
#include "worker/data/tokenizer.h"
#include "worker/lm/commands.h"
#include "worker/lm/language_model.h"
#include "worker/lm/model_source.h"
#include "worker/lm/model_tokenizer.h"

namespace longhaul {
namespace {

constexpr uint64_t kSampleStream = 0x73616d70;  // "samp"

// nullptr: tokens are numbers.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const SampleArguments& arguments,
                                                         const ModelSource& source) {
  const absl::StatusOr<TokenizerChoice> choice =
      ChooseTokenizer(arguments.tokenizer, arguments.bytes, source, "--prompt");
  if (!arguments.prompt_tokens.empty() && !(choice.ok() && choice->named)) {
    if (!arguments.tokenizer.empty()) return choice.status();
    return nullptr;
  }
  LH_RETURN_IF_ERROR(choice.status());
  if (choice->file.empty()) return MakeByteTokenizer();
  if (IsHfTokenizer(choice->file))
    return StartHfTokenizer({.path = choice->file, .special_tokens = true});
  return StartPieceTokenizer({.model = choice->file});
}

absl::StatusOr<std::vector<int64_t>> PromptOf(const SampleArguments& arguments,
                                              Tokenizer* tokenizer) {
  if (!arguments.prompt_tokens.empty()) return arguments.prompt_tokens;
  if (arguments.prompt.empty())
    return absl::InvalidArgumentError("--prompt: is empty; give at least one character");
  std::vector<std::vector<int32_t>> tokens;
  LH_RETURN_IF_ERROR(tokenizer->Encode({arguments.prompt}, tokens));
  return std::vector<int64_t>(tokens[0].begin(), tokens[0].end());
}

// Prompt and continuation: as text if there is a tokenizer, else as numbers.
class Printer {
 public:
  Printer(std::ostream& out, Tokenizer* tokenizer) : out_(out), tokenizer_(tokenizer) {}

  absl::Status Begin(const std::string& text, absl::Span<const int64_t> prompt) {
    if (tokenizer_ == nullptr) {
      for (const int64_t token : prompt) PrintNumber(token);
      return absl::OkStatus();
    }
    // The text as it was given, since decoding need not give it back; or what the numbers are.
    stream_.emplace(tokenizer_, text.empty() ? absl::Span<const int64_t>() : prompt);
    out_ << text << std::flush;
    if (!text.empty()) return absl::OkStatus();
    for (const int64_t token : prompt) LH_RETURN_IF_ERROR(Print(token));
    return absl::OkStatus();
  }
  absl::Status Print(int64_t token) {
    if (!stream_.has_value()) {
      PrintNumber(token);
      return absl::OkStatus();
    }
    LH_ASSIGN_OR_RETURN(const std::string text, stream_->Append(token));
    out_ << text << std::flush;
    return absl::OkStatus();
  }
  absl::Status Finish() {
    if (!stream_.has_value()) return absl::OkStatus();
    LH_ASSIGN_OR_RETURN(const std::string text, stream_->Finish());
    out_ << text << std::flush;
    return absl::OkStatus();
  }

 private:
  void PrintNumber(int64_t token) {
    out_ << (first_ ? "" : " ") << token << std::flush;
    first_ = false;
  }

  std::ostream& out_;
  Tokenizer* const tokenizer_;
  std::optional<TextStream> stream_;
  bool first_ = true;
};

}  // namespace

absl::StatusOr<nlohmann::ordered_json> Sample(const SampleArguments& arguments, std::ostream& out) {
  LH_ASSIGN_OR_RETURN(const ModelSource source, OpenModel(arguments.model));
  const TransformerShape& shape = source.config.shape;
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(arguments, source));
  LH_ASSIGN_OR_RETURN(const std::vector<int64_t> prompt, PromptOf(arguments, tokenizer.get()));
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model,
                      LanguageModel::Load(shape, *source.parameters, arguments.threads));
  const auto prompted = static_cast<int64_t>(prompt.size());
  LH_ASSIGN_OR_RETURN(const auto sequence, model->Begin(prompted + arguments.tokens_max));
  LH_ASSIGN_OR_RETURN(absl::Span<const float> logits, sequence->Append(prompt));
  Printer printer(out, tokenizer.get());
  const bool text = arguments.prompt_tokens.empty();
  LH_RETURN_IF_ERROR(printer.Begin(text ? arguments.prompt : "", prompt));
  std::vector<int64_t> ends;
  if (!source.origin.empty()) {
    LH_ASSIGN_OR_RETURN(ends, ReadEndTokens(source.origin));
  }
  if (ends.empty() && tokenizer != nullptr && tokenizer->eos() != kNoToken)
    ends.push_back(tokenizer->eos());
  Random random(arguments.seed, kSampleStream);
  std::vector<int64_t> tokens;
  const auto start = std::chrono::steady_clock::now();
  while (static_cast<int64_t>(tokens.size()) < arguments.tokens_max) {
    const int64_t token = ChooseToken(logits, arguments.sampling, random.Uniform());
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) break;
    tokens.push_back(token);
    LH_RETURN_IF_ERROR(printer.Print(token));
    if (static_cast<int64_t>(tokens.size()) == arguments.tokens_max) break;
    LH_ASSIGN_OR_RETURN(logits, sequence->Append({token}));
  }
  LH_RETURN_IF_ERROR(printer.Finish());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto count = static_cast<double>(tokens.size());
  return nlohmann::ordered_json{{"tokens", tokens},
                                {"tokens_per_second", seconds > 0 ? count / seconds : 0}};
}

}  // namespace longhaul
