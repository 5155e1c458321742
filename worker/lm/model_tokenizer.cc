#include "worker/lm/model_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "common/hf/hf_tokenizer.h"

namespace longhaul {
namespace {

constexpr int64_t kByteVocab = 256;

}  // namespace

absl::StatusOr<TokenizerChoice> ChooseTokenizer(const std::string& asked, bool bytes,
                                                const ModelSource& source,
                                                const std::string& option) {
  const bool named = !asked.empty();
  if (bytes || (source.config.shape.vocab == kByteVocab && !named))
    return TokenizerChoice{.named = true};
  const absl::StatusOr<std::string> file = TokenizerFile(named ? asked : source.origin);
  if (file.ok()) return TokenizerChoice{.file = *file, .named = named};
  if (named) return absl::NotFoundError(absl::StrCat("--tokenizer: ", file.status().message()));
  return absl::NotFoundError(
      absl::StrCat(option,
                   ": the model's tokens are not bytes, and there is no tokenizer next to it: give "
                   "--tokenizer PATH, or --bytes if they are"));
}

}  // namespace longhaul
