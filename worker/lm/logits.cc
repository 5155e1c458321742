#include <cstring>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/posix_filesystem.h"
#include "common/io/read_only_file.h"
#include "worker/lm/commands.h"
#include "worker/lm/language_model.h"
#include "worker/lm/model_source.h"

namespace longhaul {
namespace {

constexpr int64_t kTokensMax = 1 << 20;

absl::StatusOr<std::vector<int64_t>> ReadTokens(const std::string& path) {
  LH_ASSIGN_OR_RETURN(const std::string text, ReadRegularFile(path, 4 * kTokensMax));
  const size_t bytes = text.size();
  if (bytes == 0 || bytes % 4 != 0 || bytes / 4 > kTokensMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", bytes, " bytes are not 1 to ", kTokensMax, " tokens of int32"));
  }
  std::vector<int64_t> tokens(bytes / 4);
  for (size_t i = 0; i < tokens.size(); ++i) {
    int32_t token;
    std::memcpy(&token, text.data() + 4 * i, sizeof(token));
    tokens[i] = token;
  }
  return tokens;
}

// Empty without an end of documents.
std::vector<int64_t> StartsBehind(const std::optional<int64_t>& eos,
                                  const std::vector<int64_t>& tokens) {
  if (!eos.has_value()) return {};
  std::vector<int64_t> starts(tokens.size());
  for (size_t i = 1; i < tokens.size(); ++i)
    starts[i] = tokens[i - 1] == *eos ? static_cast<int64_t>(i) : starts[i - 1];
  return starts;
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> WriteLogits(const LogitsArguments& arguments) {
  LH_ASSIGN_OR_RETURN(const ModelSource source, OpenModel(arguments.model));
  LH_ASSIGN_OR_RETURN(const std::vector<int64_t> tokens, ReadTokens(arguments.tokens));
  LH_ASSIGN_OR_RETURN(
      const std::unique_ptr<LanguageModel> model,
      LanguageModel::Load(source.config.shape, *source.parameters, arguments.threads));
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  const std::string temporary = arguments.out + ".tmp";
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs->Create(temporary));
  absl::Cleanup remove = [&] { (void)fs->Remove(temporary); };
  const auto append = [&](int64_t, absl::Span<const float> logits) {
    return file->Append({reinterpret_cast<const char*>(logits.data()), 4 * logits.size()});
  };
  LH_RETURN_IF_ERROR(model->Logits(tokens, append, StartsBehind(arguments.eos, tokens)));
  LH_RETURN_IF_ERROR(file->SyncData());
  LH_RETURN_IF_ERROR(fs->Rename(temporary, arguments.out));
  std::move(remove).Cancel();
  return nlohmann::ordered_json{{"tokens", tokens.size()}, {"vocab", source.config.shape.vocab}};
}

}  // namespace longhaul
