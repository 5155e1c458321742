#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numbers>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/source.h"
#include "worker/data/token_batches.h"
#include "worker/lm/commands.h"
#include "worker/lm/language_model.h"
#include "worker/lm/model_source.h"

namespace longhaul {
namespace {

constexpr int64_t kBatchTokens = 4096;

// Of `format`, or what the path says if it is empty.
SourceKind KindOf(const std::string& format, const std::string& path) {
  const bool bin = absl::EndsWith(path, ".bin");
  std::error_code error;
  const bool indexed =
      absl::EndsWith(path, ".idx") || std::filesystem::exists(path + ".idx", error) ||
      (bin && std::filesystem::exists(path.substr(0, path.size() - 4) + ".idx", error));
  if (format == "megatron" || (format.empty() && indexed)) return SourceKind::kMegatron;
  if (format == "llmc") return SourceKind::kLlmc;
  if (format == "nanogpt" || (format.empty() && bin)) return SourceKind::kNanoGpt;
  return SourceKind::kText;
}

// eos and bos are of token files, and of separate documents.
absl::Status CheckMarks(const EvalArguments& arguments, SourceKind kind) {
  const bool tokens = kind == SourceKind::kNanoGpt || kind == SourceKind::kLlmc;
  if (!arguments.eos.has_value() && !arguments.bos.has_value()) return absl::OkStatus();
  if (tokens && arguments.separate_documents) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(arguments.eos.has_value() ? "--eos" : "--bos", ": counts with ",
                   tokens ? "--separate-documents only"
                          : "token files only: the documents of others are known without it"));
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> Evaluate(const EvalArguments& arguments) {
  LH_ASSIGN_OR_RETURN(const ModelSource source, OpenModel(arguments.model));
  const TransformerShape& shape = source.config.shape;
  const SourceKind kind = KindOf(arguments.format, arguments.data);
  const bool text = kind == SourceKind::kText;
  LH_RETURN_IF_ERROR(CheckMarks(arguments, kind));
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data,
                      OpenSource({.kind = kind,
                                  .path = arguments.data,
                                  .eos = arguments.eos,
                                  .bos = arguments.bos,
                                  .documents = arguments.separate_documents},
                                 shape.vocab, {}));
  const int64_t context = arguments.context != 0 ? arguments.context : shape.context;
  int64_t tokens = data->tokens();
  if (arguments.tokens_max > 0) tokens = std::min(tokens, arguments.tokens_max + 1);
  // Neighbours share a token: it is the last target of one and the first input of the next.
  const int64_t sequences = (tokens - 1) / context;
  if (sequences < 1) {
    return absl::InvalidArgumentError(absl::StrCat(arguments.data, ": ", tokens,
                                                   " tokens are no sequence of ", context,
                                                   " and a target; lower --context"));
  }
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model,
                      LanguageModel::Load(shape, *source.parameters, arguments.threads));
  const int64_t batch = std::max<int64_t>(1, kBatchTokens / context);
  double sum = 0;
  for (int64_t first = 0; first < sequences; first += batch) {
    const int64_t count = std::min(batch, sequences - first);
    std::vector<int64_t> read(count * (context + 1));
    std::vector<int64_t> starts(arguments.separate_documents ? count * context : 0);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = (first + i) * context;
      data->Read(at, absl::MakeSpan(read).subspan(i * (context + 1), context + 1));
      if (starts.empty()) continue;
      ReadDocumentStarts(*data, at, absl::MakeSpan(starts).subspan(i * context, context));
    }
    LH_ASSIGN_OR_RETURN(const double loss, model->LossSum(read, context, starts));
    sum += loss;
  }
  const double loss = sum / static_cast<double>(sequences * context);
  nlohmann::ordered_json result = {{"loss", loss}, {"perplexity", std::exp(loss)}};
  result["bits_per_byte"] =
      text ? nlohmann::ordered_json(loss / std::numbers::ln2) : nlohmann::ordered_json(nullptr);
  result["tokens"] = sequences * context;
  result["sequences"] = sequences;
  return result;
}

}  // namespace longhaul
