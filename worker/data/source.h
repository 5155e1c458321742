// Opens the data that a job names, as tokens that can be read at any place. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/data/data_warning.h"
#include "worker/data/dataset.h"
#include "worker/data/documents.h"
#include "worker/data/tokenizer.h"

namespace longhaul {

inline constexpr int kTokenBitsDefault = 16;

enum class SourceKind { kText, kJsonl, kNanoGpt, kLlmc, kMegatron, kChat };

// As in TextSource, JsonlSource, TokenSource, MegatronSource, ChatSource of job.proto.
struct SourceOptions {
  SourceKind kind = SourceKind::kText;
  // A file, folder or pattern. kMegatron: or a prefix.
  std::string path;
  // kJsonl.
  std::string field = "text";
  // kJsonl, kChat.
  int64_t line_bytes_max = kLineBytesMax;
  NullRows null_rows = NullRows::kRefuse;
  // kText, kJsonl: path of a SentencePiece model or a tokenizer.json, or of a folder with one.
  // Empty: bytes. kChat: a tokenizer.json, or a folder with one.
  std::string tokenizer;
  // The token at the end of each document. kText, kJsonl: it is added; kNoToken: none is.
  std::optional<int64_t> eos;
  // The token at the beginning of each document. kText, kJsonl: it is added; kNoToken: none is.
  std::optional<int64_t> bos;
  // kText: the bytes of a file are text, whatever it seems to be.
  bool as_is = false;
  // kText, kJsonl: control tokens that a text spells out become these tokens. Otherwise text stays
  // text.
  bool control_tokens = false;
  // kNanoGpt: bits of an id: 16, 32 or 64. 0: kTokenBitsDefault, and refused where files seem to be
  // something else.
  int width = 0;
  // Dataset::AppendDocumentStarts is needed. Documents are the files of kText, the lines of kJsonl
  // and kChat, and those of the index of kMegatron. The other kinds then need `eos` or `bos`.
  bool documents = false;
  // kChat: path of a chat template. Empty: that of the tokenizer's folder.
  std::string chat_template;
  // kChat: put several conversations into a row.
  bool pack = false;
  // kChat: tokens of a row: the model's context + 1.
  int64_t row_tokens = 0;
};

// Where and how tokens are made from text, and who hears of what takes long.
struct TokenWork {
  // Made when it is needed.
  std::string folder;
  int threads = 1;
  // Called with what it waits for, about once a second while tokens are made, and at the end with
  // "". May be null.
  std::function<void(const std::string&)> on_wait;
  // Called with what is suspicious of the data, but trained on. May be null.
  std::function<void(const DataWarning&)> on_warning;
  // Another process that makes the tokens may be without progress for so long.
  absl::Duration patience = absl::Minutes(5);
  // See PieceTokenizerOptions.
  std::string tokenizer_program;
  // Only so many tokens are needed (0: all). A few more may be made.
  int64_t tokens_max = 0;
  // Called after tokens were made, with the number of bytes of their text. May be null.
  std::function<void(int64_t)> on_made;
};

// Opens the source, and makes its tokens if they do not exist yet (token_cache.h). Blocks
// meanwhile. NOT_FOUND: the path, the tokenizer, or the program that it needs does not exist.
// INVALID_ARGUMENT: the data is damaged, of another kind (content_check.h), or empty; a token is
// not below `vocab` (FileTokens::Check: of large files some are looked at now, the others when they
// are read), or the tokenizer has more than `vocab` tokens; or documents are needed and not marked.
// Messages name file and place. DEADLINE_EXCEEDED: another process that makes the tokens makes no
// progress. INTERNAL: tokens cannot be written. Others: the system's error.
absl::StatusOr<std::unique_ptr<Dataset>> OpenSource(const SourceOptions& options, int64_t vocab,
                                                    const TokenWork& work);

// The files of the source in their order; for kMegatron their prefixes. Errors: those of
// ListDataFiles. `passed_over`, if not null, gets the files that were left out for their names.
absl::StatusOr<std::vector<std::string>> FilesOf(const SourceOptions& options,
                                                 std::vector<std::string>* passed_over = nullptr);

// The tokenizer of a source, and the tokens that it adds to each document. For kText and kJsonl.
struct SourceTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;
  int64_t eos = kNoToken, bos = kNoToken;
  // The parts in which the tokenizer reads text files.
  TextParts parts = TextParts::kLines;
};
// Also INVALID_ARGUMENT: a tokenizer.json without the usual tokens for the end of a text, and no
// eos.
absl::StatusOr<SourceTokenizer> TokenizerOf(const SourceOptions& options, int processes,
                                            const std::string& program);

}  // namespace longhaul
