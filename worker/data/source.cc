#include "worker/data/source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/counted.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/base/tokenizer_name.h"
#include "common/hf/hf_tokenizer.h"
#include "worker/data/byte_stream.h"
#include "worker/data/chat_maker.h"
#include "worker/data/chat_renderer.h"
#include "worker/data/chat_rows.h"
#include "worker/data/content_check.h"
#include "worker/data/file_list.h"
#include "worker/data/file_tokens.h"
#include "worker/data/token_cache.h"
#include "worker/data/token_files.h"

namespace longhaul {
namespace {

constexpr absl::string_view kJsonlEndings[] = {".jsonl",     ".json",     ".jsonl.gz", ".json.gz",
                                               ".jsonl.zst", ".json.zst", ".ndjson"};
constexpr absl::string_view kTokenEndings[] = {".bin"};
constexpr absl::string_view kIndexEndings[] = {".idx"};
constexpr int64_t kReadAtOnce = 1 << 16;
constexpr size_t kFilesOpenMax = 128;  // Of a source.
constexpr size_t kNamesShown = 8;

bool HasDocuments(SourceKind kind) {
  return kind == SourceKind::kText || kind == SourceKind::kJsonl;
}

absl::StatusOr<TokenPiece> OpenPiece(const SourceOptions& options, const std::string& path) {
  switch (options.kind) {
    case SourceKind::kNanoGpt:
      return OpenNanoGptFile(path, options.width == 0 ? kTokenBitsDefault : options.width);
    case SourceKind::kLlmc:
      return OpenLlmcFile(path);
    case SourceKind::kMegatron: {
      LH_ASSIGN_OR_RETURN(MegatronFile file, OpenMegatronFile(path, IndexCheck::kPlaces));
      return std::move(file.tokens);
    }
    default: {
      LH_ASSIGN_OR_RETURN(ReadOnlyFile file, ReadOnlyFile::Open(path));
      const int64_t count = file.size();
      return TokenPiece{.file = std::make_shared<const ReadOnlyFile>(std::move(file)),
                        .count = count,
                        .begins_document = true};
    }
  }
}

absl::StatusOr<bool> AnyCompressed(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    LH_ASSIGN_OR_RETURN(const Compression compression, CompressionOf(file));
    if (compression != Compression::kNone) return true;
  }
  return false;
}

absl::StatusOr<bool> HasToken(const FileTokens& tokens, int64_t wanted) {
  std::vector<int64_t> read(kReadAtOnce);
  for (int64_t first = 0; first < tokens.tokens(); first += kReadAtOnce) {
    read.resize(std::min(kReadAtOnce, tokens.tokens() - first));
    LH_RETURN_IF_ERROR(tokens.Read(first, absl::MakeSpan(read)));
    if (std::find(read.begin(), read.end(), wanted) != read.end()) return true;
  }
  return false;
}

// Stops at the first mark, so only data without marks is read as a whole.
absl::Status CheckSeparable(const SourceOptions& options, const FileTokens& tokens) {
  for (const TokenPiece& piece : tokens.pieces()) {
    if (piece.documents == nullptr || piece.documents->index.documents > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(piece.file->path(),
                     ": its index lists no documents, but documents are to be separate: write the "
                     "index with them, or omit separate_documents"));
  }
  if (options.kind != SourceKind::kNanoGpt && options.kind != SourceKind::kLlmc)
    return absl::OkStatus();
  if (!options.eos.has_value() && !options.bos.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.path,
                     ": documents are to be separate, but nothing marks them: set the token after "
                     "each (eos) or before each (bos)"));
  }
  const int64_t mark = options.eos.has_value() ? *options.eos : *options.bos;
  LH_ASSIGN_OR_RETURN(const bool has_mark, HasToken(tokens, mark));
  if (has_mark) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: documents are to be separate, but token %d (%s) does not occur in it",
                      options.path, mark, options.eos.has_value() ? "eos" : "bos"));
}

// A process may have 1,024 files open, or fewer.
absl::Status OpenByRead(TokenPiece& piece) {
  LH_ASSIGN_OR_RETURN(ReadOnlyFile tokens, piece.file->OpenedByRead());
  piece.file = std::make_shared<const ReadOnlyFile>(std::move(tokens));
  if (piece.documents == nullptr) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(ReadOnlyFile index, piece.documents->file.OpenedByRead());
  piece.documents = std::make_shared<const MegatronDocuments>(
      MegatronDocuments{std::move(index), piece.documents->index});
  return absl::OkStatus();
}

void WarnOf(const std::vector<DataWarning>& warnings, const TokenWork& work) {
  if (!work.on_warning) return;
  for (const DataWarning& warning : warnings) work.on_warning(warning);
}

// A site may lack data that has another name than it should.
std::vector<DataWarning> WarningOfPassedOver(const std::string& path,
                                             std::vector<std::string> files) {
  if (files.empty()) return {};
  std::sort(files.begin(), files.end());
  const size_t count = files.size();
  files.resize(std::min(count, kNamesShown));
  for (std::string& file : files) file = std::filesystem::path(file).filename().string();
  return {{kFilesPassedOver,
           absl::StrCat(path, ": ", Counted(static_cast<int64_t>(count), "file"),
                        count == 1 ? " is" : " are", " passed over for ",
                        count == 1 ? "its name: " : "their names: ", absl::StrJoin(files, ", "),
                        count > kNamesShown ? ", ..." : "")}};
}

std::vector<DataWarning> WarningsOfText(const SourceOptions& options, const TextNotes& notes) {
  std::vector<DataWarning> warnings;
  if (notes.null_rows > 0) {
    warnings.push_back({kNullRowsSkipped,
                        absl::StrCat(options.path, ": skipped ", Counted(notes.null_rows, "row"),
                                     " with null in place of text (field '", options.field, "')")});
  }
  if (notes.spelled.times > 0 && !options.control_tokens) {
    warnings.push_back(
        {kControlTokensSpelled,
         absl::StrCat(options.path, ": ", notes.spelled.Describe(),
                      "; they stay text (control_tokens: true makes control tokens of them)")});
  }
  return warnings;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenFiles(const SourceOptions& options,
                                                   const std::vector<std::string>& files,
                                                   int64_t vocab, const TokenWork& work) {
  std::vector<TokenPiece> pieces;
  for (const std::string& file : files) {
    LH_ASSIGN_OR_RETURN(TokenPiece piece, OpenPiece(options, file));
    LH_ASSIGN_OR_RETURN(const std::vector<DataWarning> suspicions, SuspicionsOf(piece));
    WarnOf(suspicions, work);
    if (files.size() > kFilesOpenMax) LH_RETURN_IF_ERROR(OpenByRead(piece));
    pieces.push_back(std::move(piece));
  }
  DocumentTokens marks;
  if (options.kind == SourceKind::kNanoGpt || options.kind == SourceKind::kLlmc)
    marks = {options.eos.value_or(kNoToken), options.bos.value_or(kNoToken)};
  auto tokens = std::make_unique<FileTokens>(std::move(pieces), marks, vocab);
  if (tokens->tokens() == 0)
    return absl::InvalidArgumentError(absl::StrCat(options.path, ": holds no tokens"));
  LH_RETURN_IF_ERROR(tokens->Check());
  if (options.documents) LH_RETURN_IF_ERROR(CheckSeparable(options, *tokens));
  return tokens;
}

absl::StatusOr<SourceTokenizer> StartTokenizer(const SourceOptions& options, int processes,
                                               const std::string& program) {
  SourceTokenizer result{.bos = options.bos.value_or(kNoToken)};
  if (options.tokenizer.empty()) {
    result.tokenizer = MakeByteTokenizer();
    // Text holds no NUL, so that it tells documents of JSONL apart; files of text are joined as
    // they are.
    result.eos = options.eos.value_or(options.kind == SourceKind::kJsonl ? 0 : kNoToken);
    return result;
  }
  LH_ASSIGN_OR_RETURN(const std::string file, TokenizerFile(options.tokenizer));
  DeclaredEnd declared;
  if (!options.eos.has_value()) {
    LH_ASSIGN_OR_RETURN(declared, ReadDeclaredEnd(file));
  }
  if (!IsHfTokenizer(file)) {
    LH_ASSIGN_OR_RETURN(result.tokenizer, StartPieceTokenizer({.model = file,
                                                               .processes = processes,
                                                               .end_token = declared.token,
                                                               .end_id = declared.id,
                                                               .program = program}));
    if (options.control_tokens) {
      return absl::InvalidArgumentError(
          absl::StrCat(file,
                       ": a SentencePiece model makes no control tokens of text that spells "
                       "them out: use its tokenizer.json, or omit control_tokens"));
    }
  } else {
    LH_ASSIGN_OR_RETURN(
        result.tokenizer,
        StartHfTokenizer(
            {.path = file, .control_tokens = options.control_tokens, .threads = processes}));
    result.parts = TextParts::kPieces;
  }
  result.eos = options.eos.value_or(result.tokenizer->eos());
  if (options.eos.has_value() || result.eos != kNoToken) return result;
  if (declared.any()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": has no token ", declared.Describe(),
        ", which its folder declares as the end of a text (eos_token of tokenizer_config.json, "
        "eos_token_id of generation_config.json or config.json); set eos to the token after each "
        "document, or to -1 for none"));
  }
  if (!IsHfTokenizer(file)) return result;
  return absl::InvalidArgumentError(
      absl::StrCat(file,
                   ": has none of the usual tokens for the end of a text; set eos to the token "
                   "after each document, or to -1 for none"));
}

absl::Status CheckTokenizerVocab(const std::string& tokenizer, int64_t has, int64_t vocab) {
  if (has <= vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: this tokenizer has %d tokens, the model's vocab is %d; it must be at "
                      "least as large",
                      tokenizer, has, vocab));
}

std::vector<DataWarning> SuspicionsOfChat(const SourceOptions& options, const ChatRows& rows) {
  constexpr double kUsedLeast = 0.5;
  const ChatCounts& counts = rows.counts();
  std::vector<DataWarning> suspicions;
  if (counts.cut > 0) {
    suspicions.push_back(
        {kChatCut,
         absl::StrFormat(
             "%s: %d of %d conversations are longer than context + 1 = %d tokens: they are cut",
             options.path, counts.cut, counts.conversations, options.row_tokens)});
  }
  if (counts.left_out > 0) {
    suspicions.push_back(
        {kChatLeftOut,
         absl::StrFormat(
             "%s: %d of %d conversations are left out, since none of their first %d tokens counts",
             options.path, counts.left_out, counts.conversations, options.row_tokens)});
  }
  if (!options.pack && rows.used() < kUsedLeast) {
    suspicions.push_back(
        {kChatRowsFilledUp, absl::StrFormat("%s: conversations take %.0f%% of their rows; pack: "
                                            "true with data.separate_documents puts several into "
                                            "a row",
                                            options.path, 100 * rows.used())});
  }
  return suspicions;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenChat(const SourceOptions& options,
                                                  const std::vector<std::string>& files,
                                                  int64_t vocab, const TokenWork& work) {
  absl::StatusOr<std::unique_ptr<ChatRenderer>> renderer =
      ChatRenderer::Start({.tokenizer = options.tokenizer,
                           .chat_template = options.chat_template,
                           .threads = work.threads});
  if (!renderer.ok()) return MarkTokenizer(renderer.status());
  LH_RETURN_IF_ERROR(CheckTokenizerVocab(options.tokenizer, (*renderer)->vocab(), vocab));
  LH_ASSIGN_OR_RETURN(const std::string prefix, MakeChatRows(options, **renderer, files, work));
  absl::StatusOr<std::unique_ptr<ChatRows>> rows =
      ChatRows::Open(prefix, options.row_tokens, vocab);
  if (rows.ok()) {
    WarnOf(SuspicionsOfChat(options, **rows), work);
    return *std::move(rows);
  }
  return WithMessage(rows.status(),
                     absl::StrCat("the tokens of ", options.path, " in ", rows.status().message()));
}

absl::Status CheckVocab(const SourceOptions& options, const SourceTokenizer& of, int64_t vocab) {
  if (!options.tokenizer.empty())
    LH_RETURN_IF_ERROR(CheckTokenizerVocab(options.tokenizer, of.tokenizer->vocab(), vocab));
  if (of.eos >= vocab) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: the token after each document, %d (eos), is not below the model's vocab %d",
        options.path, of.eos, vocab));
  }
  if (of.bos < vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: the token before each document, %d (bos), is not below the model's vocab %d",
      options.path, of.bos, vocab));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FilesOf(const SourceOptions& options,
                                                 std::vector<std::string>* passed_over) {
  switch (options.kind) {
    case SourceKind::kText:
      return ListDataFiles(options.path, {}, passed_over);
    case SourceKind::kJsonl:
    case SourceKind::kChat:
      return ListDataFiles(options.path, kJsonlEndings, passed_over);
    case SourceKind::kNanoGpt:
    case SourceKind::kLlmc:
      return ListDataFiles(options.path, kTokenEndings, passed_over);
    case SourceKind::kMegatron:
      break;
  }
  std::error_code ignored;
  const std::string prefix = MegatronPrefix(options.path);
  if (std::filesystem::exists(prefix + ".idx", ignored)) return std::vector<std::string>{prefix};
  const bool folder = std::filesystem::is_directory(options.path, ignored);
  const bool pattern = options.path.find_first_of("*?[") != std::string::npos;
  if (!folder && !pattern) return ListDataFiles(prefix + ".idx");  // Says that it is not there.
  LH_ASSIGN_OR_RETURN(
      std::vector<std::string> files,
      ListDataFiles(folder ? options.path : prefix + ".idx", kIndexEndings, passed_over));
  for (std::string& file : files) file = MegatronPrefix(file);
  if (passed_over != nullptr) {
    // The .bin of an index is read.
    std::erase_if(*passed_over, [&](const std::string& file) {
      return absl::EndsWith(file, ".bin") &&
             std::binary_search(files.begin(), files.end(), MegatronPrefix(file));
    });
  }
  return files;
}

absl::StatusOr<SourceTokenizer> TokenizerOf(const SourceOptions& options, int processes,
                                            const std::string& program) {
  absl::StatusOr<SourceTokenizer> started = StartTokenizer(options, processes, program);
  if (!started.ok()) return MarkTokenizer(started.status());
  return started;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenSource(const SourceOptions& options, int64_t vocab,
                                                    const TokenWork& work) {
  std::vector<std::string> passed_over;
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(options, &passed_over));
  WarnOf(WarningOfPassedOver(options.path, std::move(passed_over)), work);
  for (const std::string& file : files) {
    LH_ASSIGN_OR_RETURN(const std::vector<DataWarning> suspicions, CheckContent(options, file));
    WarnOf(suspicions, work);
  }
  if (options.kind == SourceKind::kChat) return OpenChat(options, files, vocab, work);
  if (!HasDocuments(options.kind)) return OpenFiles(options, files, vocab, work);
  const bool plain = options.kind == SourceKind::kText && options.tokenizer.empty() &&
                     options.eos.value_or(kNoToken) == kNoToken &&
                     options.bos.value_or(kNoToken) == kNoToken;
  if (plain) {
    LH_ASSIGN_OR_RETURN(const bool compressed, AnyCompressed(files));
    if (!compressed) return OpenFiles(options, files, vocab, work);
  }
  LH_ASSIGN_OR_RETURN(const SourceTokenizer tokenizer,
                      TokenizerOf(options, 1, work.tokenizer_program));
  LH_RETURN_IF_ERROR(CheckVocab(options, tokenizer, vocab));
  LH_ASSIGN_OR_RETURN(const MadeTokens made, MakeTokens(options, tokenizer, files, work));
  WarnOf(WarningsOfText(options, made.notes), work);
  SourceOptions tokens = options;
  tokens.kind = SourceKind::kMegatron;
  // Whether documents have a common end is for the source to say, not for data of others.
  TokenWork quiet = work;
  quiet.on_warning = nullptr;
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = OpenFiles(tokens, {made.prefix}, vocab, quiet);
  if (dataset.ok()) return dataset;
  return WithMessage(dataset.status(), absl::StrCat("the tokens of ", options.path, " in ",
                                                    dataset.status().message()));
}

}  // namespace longhaul
