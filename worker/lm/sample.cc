#include <algorithm>
#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "worker/lm/commands.h"
#include "worker/lm/language_model.h"
#include "worker/lm/model_source.h"

namespace longhaul {
namespace {

constexpr int64_t kBytes = 256;
constexpr uint64_t kSampleStream = 0x73616d70;  // "samp"

// Of config.json.
std::vector<int64_t> EndTokens(const HfConfig& config) {
  const auto json = nlohmann::json::parse(config.eos);
  if (json.is_array()) return json.get<std::vector<int64_t>>();
  return json.is_number() ? std::vector{json.get<int64_t>()} : std::vector<int64_t>{};
}

absl::StatusOr<std::vector<int64_t>> PromptOf(const SampleArguments& arguments, bool bytes) {
  if (!arguments.prompt_tokens.empty()) return arguments.prompt_tokens;
  if (!bytes) {
    return absl::InvalidArgumentError(
        "--prompt: the model's tokens are not bytes; give --prompt-tokens, or --bytes if they are");
  }
  if (arguments.prompt.empty())
    return absl::InvalidArgumentError("--prompt: is empty; one character is the least");
  std::vector<int64_t> tokens;
  for (const char c : arguments.prompt) tokens.push_back(static_cast<uint8_t>(c));
  return tokens;
}

class TokenPrinter {
 public:
  TokenPrinter(std::ostream& out, bool bytes) : out_(out), bytes_(bytes) {}
  void Print(int64_t token) {
    if (bytes_ && token < kBytes) {
      out_ << static_cast<char>(token);
    } else if (!bytes_) {
      out_ << (first_ ? "" : " ") << token;
    }
    first_ = false;
    out_ << std::flush;
  }

 private:
  std::ostream& out_;
  const bool bytes_;
  bool first_ = true;
};

}  // namespace

absl::StatusOr<nlohmann::ordered_json> Sample(const SampleArguments& arguments, std::ostream& out) {
  LH_ASSIGN_OR_RETURN(const ModelSource source, OpenModel(arguments.model));
  const TransformerShape& shape = source.config.shape;
  const bool bytes = arguments.bytes || shape.vocab == kBytes;
  LH_ASSIGN_OR_RETURN(const std::vector<int64_t> prompt, PromptOf(arguments, bytes));
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model,
                      LanguageModel::Load(shape, *source.parameters, arguments.threads));
  const auto prompted = static_cast<int64_t>(prompt.size());
  LH_ASSIGN_OR_RETURN(const auto sequence, model->Begin(prompted + arguments.tokens_max));
  LH_ASSIGN_OR_RETURN(absl::Span<const float> logits, sequence->Append(prompt));
  TokenPrinter printer(out, bytes);
  for (const int64_t token : prompt) printer.Print(token);
  const std::vector<int64_t> ends = EndTokens(source.config);
  Random random(arguments.seed, kSampleStream);
  std::vector<int64_t> tokens;
  const auto start = std::chrono::steady_clock::now();
  while (static_cast<int64_t>(tokens.size()) < arguments.tokens_max) {
    const int64_t token = ChooseToken(logits, arguments.sampling, random.Uniform());
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) break;
    tokens.push_back(token);
    printer.Print(token);
    if (static_cast<int64_t>(tokens.size()) == arguments.tokens_max) break;
    LH_ASSIGN_OR_RETURN(logits, sequence->Append({token}));
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto count = static_cast<double>(tokens.size());
  return nlohmann::ordered_json{{"tokens", tokens},
                                {"tokens_per_second", seconds > 0 ? count / seconds : 0}};
}

}  // namespace longhaul
