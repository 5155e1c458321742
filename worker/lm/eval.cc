#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/source.h"
#include "worker/lm/commands.h"
#include "worker/lm/language_model.h"
#include "worker/lm/model_source.h"

namespace longhaul {
namespace {

constexpr int64_t kBatchTokens = 4096;

absl::StatusOr<std::unique_ptr<Dataset>> OpenEvalData(const std::string& path, bool text,
                                                      int64_t vocab) {
  return OpenSource({.kind = text ? SourceKind::kText : SourceKind::kNanoGpt, .path = path}, vocab,
                    {});
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> Evaluate(const EvalArguments& arguments) {
  LH_ASSIGN_OR_RETURN(const ModelSource source, OpenModel(arguments.model));
  const TransformerShape& shape = source.config.shape;
  const bool text = arguments.format.empty() ? !absl::EndsWith(arguments.data, ".bin")
                                             : arguments.format == "text";
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data,
                      OpenEvalData(arguments.data, text, shape.vocab));
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
    for (int64_t i = 0; i < count; ++i) {
      data->Read((first + i) * context,
                 absl::MakeSpan(read).subspan(i * (context + 1), context + 1));
    }
    LH_ASSIGN_OR_RETURN(const double loss, model->LossSum(read, context));
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
