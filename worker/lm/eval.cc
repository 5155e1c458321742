#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <numbers>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/chat_check.h"
#include "worker/data/data_check.h"
#include "worker/data/file_list.h"
#include "worker/data/source.h"
#include "worker/data/token_batches.h"
#include "worker/lm/commands.h"
#include "worker/lm/language_model.h"
#include "worker/lm/model_source.h"
#include "worker/lm/model_tokenizer.h"
#include "worker/lm/work_folder.h"

namespace longhaul {
namespace {

constexpr int64_t kBatchTokens = 4096;

constexpr absl::string_view kFormats[] = {"text", "jsonl", "chat", "nanogpt", "llmc", "megatron"};
constexpr SourceKind kKinds[] = {SourceKind::kText,    SourceKind::kJsonl, SourceKind::kChat,
                                 SourceKind::kNanoGpt, SourceKind::kLlmc,  SourceKind::kMegatron};

// Of `format`, or what name and content say if it is empty.
absl::StatusOr<SourceKind> KindOfEval(const std::string& format, const std::string& path,
                                      const std::string& field) {
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    if (format == kFormats[i]) return kKinds[i];
  }
  std::error_code error;
  if (std::filesystem::exists(path + ".idx", error)) return SourceKind::kMegatron;
  // A README beside JSONL is none of the data.
  const bool folder = std::filesystem::is_directory(path, error);
  if (folder) {
    const auto of_jsonl = FilesOf({.kind = SourceKind::kJsonl, .path = path});
    if (of_jsonl.ok())
      return LooksLikeChat(of_jsonl->front(), field) ? SourceKind::kChat : SourceKind::kJsonl;
  }
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> files, ListDataFiles(path));
  LH_ASSIGN_OR_RETURN(const SourceKind kind, KindOfData(files.front()));
  if (kind == SourceKind::kJsonl && LooksLikeChat(files.front(), field)) return SourceKind::kChat;
  // A model of bytes may be asked about any bytes.
  const bool named = absl::EndsWith(files.front(), ".bin");
  return kind == SourceKind::kNanoGpt && !named ? SourceKind::kText : kind;
}

// Both are put around what is made of text. In token files one of them tells separate documents.
absl::Status CheckMarks(const EvalArguments& arguments, SourceKind kind, bool documents) {
  const bool text = kind == SourceKind::kText || kind == SourceKind::kJsonl;
  const bool tokens = kind == SourceKind::kNanoGpt || kind == SourceKind::kLlmc;
  if (text || (!arguments.eos.has_value() && !arguments.bos.has_value())) return absl::OkStatus();
  if (arguments.eos.has_value() && arguments.bos.has_value()) {
    return absl::InvalidArgumentError(
        "--bos: goes with --eos for text and JSONL only: documents of token files are told by one "
        "of them");
  }
  if (tokens && documents) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(arguments.eos.has_value() ? "--eos" : "--bos", ": counts with ",
                   tokens ? "--separate-documents only"
                          : "token files only: the documents of others are known without it"));
}

struct EvalData {
  std::unique_ptr<Dataset> tokens;
  double tokens_per_byte = 0;  // 0: not of text.
};

void SayWhatIsWaitedFor(const std::string& what) {
  if (!what.empty()) std::cerr << what << std::endl;
}

absl::StatusOr<EvalData> OpenEvalData(const EvalArguments& arguments, const ModelSource& source,
                                      int64_t context, bool documents) {
  LH_ASSIGN_OR_RETURN(const SourceKind kind,
                      KindOfEval(arguments.format, arguments.data, arguments.field));
  LH_RETURN_IF_ERROR(CheckMarks(arguments, kind, documents));
  SourceOptions options{
      .kind = kind,
      .path = arguments.data,
      .field = arguments.field,
      .line_bytes_max = int64_t{arguments.line_mib_max} << 20,
      .null_rows = arguments.null_rows == "skip" ? NullRows::kSkip : NullRows::kRefuse,
      .eos = arguments.eos,
      .bos = arguments.bos,
      .as_is = arguments.format == "text",
      .documents = documents,
      .chat_template = arguments.chat_template,
      .row_tokens = context + 1};
  const bool text = kind == SourceKind::kText || kind == SourceKind::kJsonl;
  if (text || kind == SourceKind::kChat) {
    LH_ASSIGN_OR_RETURN(const TokenizerChoice choice,
                        ChooseTokenizer(arguments.tokenizer, arguments.bytes, source, "--data"));
    options.tokenizer = choice.file;
    if (kind == SourceKind::kChat && choice.file.empty()) {
      return absl::InvalidArgumentError(
          "--tokenizer: chat needs a folder with the model's tokenizer.json and chat template");
    }
  }
  // The files are open, so their names may go.
  LH_ASSIGN_OR_RETURN(const WorkFolder folder, WorkFolder::Make());
  int64_t text_bytes = 0;
  const TokenWork work{
      .folder = folder.path(),
      .threads = arguments.threads,
      .on_wait = SayWhatIsWaitedFor,
      .on_warning = [](const DataWarning& warning) { SayWhatIsWaitedFor(warning.message); },
      .tokens_max = arguments.tokens_max > 0 ? arguments.tokens_max + 1 : 0,
      .on_made = [&](int64_t bytes) { text_bytes = bytes; }};
  EvalData data;
  LH_ASSIGN_OR_RETURN(data.tokens, OpenSource(options, source.config.shape.vocab, work));
  // What is not made is text as it is.
  if (text)
    data.tokens_per_byte =
        text_bytes == 0 ? 1 : static_cast<double>(data.tokens->tokens()) / text_bytes;
  return data;
}

// A model that was trained so is evaluated so; who did not ask for it learns of it here.
absl::Status ErrorOfDocuments(const absl::Status& status, const EvalArguments& arguments,
                              bool documents) {
  const bool asked = arguments.separate_documents.has_value();
  if (asked || !documents || !absl::IsInvalidArgument(status)) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(status.message(),
                   " (this model was trained with data.separate_documents; "
                   "--joined-documents evaluates it without)"));
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> Evaluate(const EvalArguments& arguments) {
  LH_ASSIGN_OR_RETURN(const ModelSource source, OpenModel(arguments.model));
  const TransformerShape& shape = source.config.shape;
  const bool documents = arguments.separate_documents.value_or(source.config.separate_documents);
  const int64_t context = arguments.context != 0 ? arguments.context : shape.context;
  absl::StatusOr<EvalData> opened = OpenEvalData(arguments, source, context, documents);
  if (!opened.ok()) return ErrorOfDocuments(opened.status(), arguments, documents);
  const Dataset* const data = opened->tokens.get();
  int64_t tokens = data->tokens();
  if (arguments.tokens_max > 0) tokens = std::min(tokens, arguments.tokens_max + 1);
  // Neighbours share a token: it is the last target of one and the first input of the next.
  const int64_t stride = data->row() > 0 ? data->row() : context;
  const int64_t sequences = data->row() > 0 ? tokens / stride : (tokens - 1) / stride;
  if (sequences < 1) {
    return absl::InvalidArgumentError(absl::StrCat(arguments.data, ": ", tokens,
                                                   " tokens are too few for a sequence of ",
                                                   context, " and a target; lower --context"));
  }
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model,
                      LanguageModel::Load(shape, *source.parameters, arguments.threads));
  const int64_t batch = std::max<int64_t>(1, kBatchTokens / context);
  double sum = 0;
  int64_t targets = 0;
  for (int64_t first = 0; first < sequences; first += batch) {
    const int64_t count = std::min(batch, sequences - first);
    std::vector<int64_t> read(count * (context + 1));
    std::vector<int64_t> starts(documents ? count * context : 0);
    std::vector<int64_t> mask(data->masked() ? count * context : 0);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = (first + i) * stride;
      LH_RETURN_IF_ERROR(
          data->Read(at, absl::MakeSpan(read).subspan(i * (context + 1), context + 1)));
      if (!mask.empty()) {
        LH_RETURN_IF_ERROR(
            data->ReadMask(at + 1, absl::MakeSpan(mask).subspan(i * context, context)));
      }
      if (starts.empty()) continue;
      LH_RETURN_IF_ERROR(
          ReadDocumentStarts(*data, at, absl::MakeSpan(starts).subspan(i * context, context)));
    }
    LH_ASSIGN_OR_RETURN(const double loss, model->LossSum(read, context, starts, mask));
    sum += loss;
    targets += mask.empty() ? count * context : std::count(mask.begin(), mask.end(), 1);
  }
  const double loss = sum / static_cast<double>(targets);
  nlohmann::ordered_json result = {{"loss", loss}, {"perplexity", std::exp(loss)}};
  result["bits_per_byte"] = nullptr;
  if (opened->tokens_per_byte > 0)
    result["bits_per_byte"] = loss * opened->tokens_per_byte / std::numbers::ln2;
  result["tokens"] = targets;
  result["sequences"] = sequences;
  result["separate_documents"] = documents;
  return result;
}

}  // namespace longhaul
