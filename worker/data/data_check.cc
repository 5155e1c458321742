#include "worker/data/data_check.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/io/file_content.h"
#include "worker/data/byte_stream.h"
#include "worker/data/chat_check.h"
#include "worker/data/content_check.h"
#include "worker/data/control_tokens.h"
#include "worker/data/document_encoder.h"
#include "worker/data/documents.h"
#include "worker/data/file_list.h"
#include "worker/data/file_tokens.h"
#include "worker/data/token_files.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCheckBatchBytes = 2 << 20, kCheckBatchTexts = 1 << 16;
constexpr size_t kSampleTextBytes = 200;
constexpr int64_t kTokensAtOnce = 1 << 16;
constexpr int64_t kTokensToJudge = 100000;  // So many use most of a vocabulary.

void AddWarnings(const std::vector<DataWarning>& warnings, DataReport& report) {
  for (const DataWarning& warning : warnings) report.warnings.push_back(warning.message);
}

bool IsNamedJsonl(const std::string& path) {
  for (const absl::string_view ending : {".jsonl", ".ndjson", ".json"}) {
    for (const absl::string_view compressed : {"", ".gz", ".zst"})
      if (absl::EndsWith(path, absl::StrCat(ending, compressed))) return true;
  }
  return false;
}

}  // namespace

void AddProblem(DataReport& report, absl::string_view problem) {
  if (report.problem_count++ < kProblemsShown) report.problems.emplace_back(problem);
}

absl::StatusOr<SourceKind> KindOfData(const std::string& path) {
  std::error_code ignored;
  if (absl::EndsWith(path, ".idx") || fs::exists(MegatronPrefix(path) + ".idx", ignored))
    return SourceKind::kMegatron;
  LH_ASSIGN_OR_RETURN(const std::string head, ContentHeadOf(path));
  if (IsLlmcFile({reinterpret_cast<const uint8_t*>(head.data()), head.size()}))
    return SourceKind::kLlmc;
  const FileForm form = ContentOf(head).form;
  if (form == FileForm::kJsonl || IsNamedJsonl(path)) return SourceKind::kJsonl;
  // Text has no NUL byte. Most 16-bit tokens have a small upper byte.
  if (absl::EndsWith(path, ".bin") || form == FileForm::kBinary) return SourceKind::kNanoGpt;
  return SourceKind::kText;
}

namespace {

absl::Status LookAtTokens(const TokenPiece& piece, const DataCheckOptions& options,
                          DataReport& report) {
  report.tokens = piece.count;
  const std::optional<int64_t> mark = options.eos.has_value() ? options.eos : options.bos;
  int64_t largest = -1, marks = 0;
  std::vector<int64_t> tokens;
  for (int64_t first = 0; first < piece.count; first += kTokensAtOnce) {
    tokens.resize(std::min(kTokensAtOnce, piece.count - first));
    LH_RETURN_IF_ERROR(ReadTokens(piece, first, absl::MakeSpan(tokens)));
    largest = std::max(largest, *std::max_element(tokens.begin(), tokens.end()));
    if (mark.has_value()) marks += std::count(tokens.begin(), tokens.end(), *mark);
    if (first == 0) {
      const size_t shown = std::min<size_t>(tokens.size(), options.sample_tokens);
      report.sample.assign(tokens.begin(), tokens.begin() + shown);
    }
  }
  if (largest >= 0) report.largest = largest;
  if (mark.has_value() && !report.documents.has_value()) report.documents = marks;
  LH_ASSIGN_OR_RETURN(const std::vector<DataWarning> suspicions, SuspicionsOf(piece));
  AddWarnings(suspicions, report);
  if (options.vocab > 0 && piece.count >= kTokensToJudge && largest < options.vocab / 2) {
    report.warnings.push_back(absl::StrCat(piece.file->path(), ": its largest token is ", largest,
                                           ", the vocab ", options.vocab,
                                           ": was it made with the tokenizer of this model?"));
  }
  const int64_t vocab = options.vocab > 0 ? options.vocab : piece.limit;
  const absl::Status checked = CheckTokens(piece, vocab);
  if (!absl::IsInvalidArgument(checked)) return checked;
  AddProblem(report, checked.message());
  return absl::OkStatus();
}

absl::StatusOr<TokenPiece> OpenTokens(const std::string& path, const DataCheckOptions& options,
                                      DataReport& report) {
  if (report.kind == SourceKind::kLlmc) return OpenLlmcFile(path);
  if (report.kind == SourceKind::kNanoGpt)
    return OpenNanoGptFile(path, options.width == 0 ? kTokenBitsDefault : options.width);
  LH_ASSIGN_OR_RETURN(MegatronFile file, OpenMegatronFile(MegatronPrefix(path)));
  report.documents = file.documents;
  return std::move(file.tokens);
}

absl::Status CheckTokenFile(const std::string& path, const DataCheckOptions& options,
                            DataReport& report) {
  const absl::StatusOr<TokenPiece> piece = OpenTokens(path, options, report);
  if (piece.ok()) return LookAtTokens(*piece, options, report);
  if (!absl::IsInvalidArgument(piece.status()) && !absl::IsNotFound(piece.status()))
    return piece.status();
  AddProblem(report, piece.status().message());
  return absl::OkStatus();
}

// Text and JSONL, in batches.
class DocumentCheck {
 public:
  DocumentCheck(const DataCheckOptions& options, const SourceTokenizer& tokenizer,
                DataReport& report)
      : options_(options),
        parts_(tokenizer.parts),
        report_(report),
        spelled_(tokenizer.tokenizer->control_tokens()),
        encoder_(&tokenizer, {.bytes = kCheckBatchBytes, .texts = kCheckBatchTexts},
                 [this](absl::Span<const int32_t> tokens, bool) { return Count(tokens); }) {}

  absl::Status Run(const std::string& path) {
    report_.documents = 0;
    const bool jsonl = report_.kind == SourceKind::kJsonl;
    auto opened =
        jsonl
            ? OpenJsonlDocuments(path, options_.field, options_.line_bytes_max, options_.null_rows)
            : OpenTextDocument(path, parts_,
                               options_.tokenizer.empty() ? TextBytes::kAny : TextBytes::kUtf8);
    LH_RETURN_IF_ERROR(opened.status());
    DocumentReader& documents = **opened;
    for (DocumentPart part;;) {
      const absl::StatusOr<bool> more = documents.Next(part);
      if (!more.ok()) {
        if (!absl::IsInvalidArgument(more.status())) return more.status();
        AddProblem(report_, more.status().message());
        if (documents.CanGoOn()) continue;
        break;
      }
      if (!*more) break;
      Look(part);
      LH_RETURN_IF_ERROR(encoder_.Add(std::move(part)).status());
    }
    report_.null_rows = documents.null_rows();
    if (!options_.tokenizer.empty()) report_.control_tokens = spelled_.spelled();
    return encoder_.Flush();
  }

 private:
  void Look(const DocumentPart& part) {
    if (report_.sample_text.size() < kSampleTextBytes && *report_.documents == 0)
      report_.sample_text += part.text.substr(0, kSampleTextBytes - report_.sample_text.size());
    spelled_.Look(part.text, part.ends_document);
    if (part.ends_document) ++*report_.documents;
    if (report_.not_utf8_at.has_value()) return;
    const size_t characters = Utf8Prefix(part.text);
    if (characters < part.text.size())
      report_.not_utf8_at = text_bytes_ + static_cast<int64_t>(characters);
    text_bytes_ += static_cast<int64_t>(part.text.size());
  }

  absl::Status Count(absl::Span<const int32_t> tokens) {
    report_.tokens += static_cast<int64_t>(tokens.size());
    for (const int32_t token : tokens) {
      report_.largest = std::max<int64_t>(report_.largest.value_or(token), token);
      if (static_cast<int>(report_.sample.size()) < options_.sample_tokens)
        report_.sample.push_back(token);
    }
    return absl::OkStatus();
  }

  const DataCheckOptions& options_;
  const TextParts parts_;
  DataReport& report_;
  SpelledControlTokenCount spelled_;
  int64_t text_bytes_ = 0;  // Of the parts that were looked at.
  DocumentEncoder encoder_;
};

SourceOptions SourceOf(const std::string& path, const DataCheckOptions& options,
                       const DataReport& report) {
  return {.kind = report.kind,
          .path = path,
          .field = options.field,
          .null_rows = options.null_rows,
          .tokenizer = options.tokenizer,
          .eos = options.eos,
          .bos = options.bos,
          .as_is = options.as_is,
          .control_tokens = options.control_tokens,
          .width = options.width};
}

absl::Status FindCompression(const std::string& path, DataReport& report) {
  LH_ASSIGN_OR_RETURN(const Compression compression, CompressionOf(path));
  report.compression = compression == Compression::kGzip   ? "gzip"
                       : compression == Compression::kZstd ? "zstd"
                                                           : "";
  return absl::OkStatus();
}

absl::Status CheckDocuments(const std::string& path, const DataCheckOptions& options,
                            DataReport& report) {
  LH_RETURN_IF_ERROR(FindCompression(path, report));
  LH_ASSIGN_OR_RETURN(
      const SourceTokenizer tokenizer,
      TokenizerOf(SourceOf(path, options, report), options.threads, options.tokenizer_program));
  LH_RETURN_IF_ERROR(DocumentCheck(options, tokenizer, report).Run(path));
  if (options.vocab > 0 && report.largest.value_or(0) >= options.vocab) {
    AddProblem(report, absl::StrCat(path, ": token ", *report.largest, " is not below the vocab ",
                                    options.vocab));
  }
  return absl::OkStatus();
}

absl::StatusOr<DataReport> CheckFile(const std::string& path, const DataCheckOptions& options) {
  DataReport report{.path = path};
  if (options.kind.has_value()) {
    report.kind = *options.kind;
  } else {
    LH_ASSIGN_OR_RETURN(report.kind, KindOfData(path));
  }
  std::error_code ignored;
  const uintmax_t bytes = fs::file_size(
      report.kind == SourceKind::kMegatron ? MegatronPrefix(path) + ".bin" : path, ignored);
  report.bytes = ignored ? 0 : static_cast<int64_t>(bytes);
  const bool prefix = report.kind == SourceKind::kMegatron;
  const absl::StatusOr<std::vector<DataWarning>> suspicions =
      CheckContent(SourceOf(path, options, report), prefix ? MegatronPrefix(path) : path);
  if (absl::IsInvalidArgument(suspicions.status())) {
    report.other_format = true;
    AddProblem(report, suspicions.status().message());
    return report;
  }
  LH_RETURN_IF_ERROR(suspicions.status());
  AddWarnings(*suspicions, report);
  if (!options.kind.has_value() && report.kind == SourceKind::kJsonl &&
      LooksLikeChat(path, options.field))
    report.kind = SourceKind::kChat;
  if (report.kind == SourceKind::kChat) {
    LH_RETURN_IF_ERROR(FindCompression(path, report));
    LH_RETURN_IF_ERROR(CheckChat(path, options, report));
    return report;
  }
  const bool has_text = report.kind == SourceKind::kText || report.kind == SourceKind::kJsonl;
  LH_RETURN_IF_ERROR(has_text ? CheckDocuments(path, options, report)
                              : CheckTokenFile(path, options, report));
  return report;
}

}  // namespace

std::string KindName(SourceKind kind) {
  switch (kind) {
    case SourceKind::kText:
      return "text";
    case SourceKind::kJsonl:
      return "jsonl";
    case SourceKind::kNanoGpt:
      return "nanogpt";
    case SourceKind::kLlmc:
      return "llmc";
    case SourceKind::kMegatron:
      return "megatron";
    case SourceKind::kChat:
      break;
  }
  return "chat";
}

absl::StatusOr<std::vector<DataReport>> CheckData(const std::string& path,
                                                  const DataCheckOptions& options) {
  std::error_code ignored;
  const bool prefix = !fs::exists(path, ignored) && fs::exists(path + ".idx", ignored);
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                      ListDataFiles(prefix ? path + ".idx" : path));
  std::set<std::string> pairs;
  std::vector<DataReport> reports;
  for (const std::string& file : files) {
    const std::string pair = MegatronPrefix(file);
    if (pair != file && fs::exists(pair + ".idx", ignored) && !pairs.insert(pair).second) continue;
    LH_ASSIGN_OR_RETURN(DataReport report, CheckFile(file, options));
    reports.push_back(std::move(report));
  }
  const auto is_empty = [](const DataReport& report) {
    return report.tokens == 0 && report.problem_count == 0;
  };
  if (!reports.empty() && std::all_of(reports.begin(), reports.end(), is_empty))
    AddProblem(reports.front(), absl::StrCat(path, ": holds no text"));
  return reports;
}

}  // namespace longhaul
