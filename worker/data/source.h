// From what a job says of its data to tokens that can be read anywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/data/dataset.h"
#include "worker/data/documents.h"
#include "worker/data/tokenizer.h"

namespace longhaul {

enum class SourceKind { kText, kJsonl, kNanoGpt, kLlmc, kMegatron };

// As in TextSource, JsonlSource, TokenSource, MegatronSource of job.proto.
struct SourceOptions {
  SourceKind kind = SourceKind::kText;
  std::string path;            // A file, folder or pattern; kMegatron: or a prefix.
  std::string field = "text";  // kJsonl.
  // kText, kJsonl: path of a SentencePiece model or a tokenizer.json, or of a folder with one. Empty:
  // bytes.
  std::string tokenizer;
  std::optional<int64_t> eos;  // Behind each document. kText, kJsonl: is put there; kNoToken: none.
  std::optional<int64_t> bos;  // kNanoGpt, kLlmc: before each document.
  // Dataset::AppendDocumentStarts is wanted: of kText the files, of kJsonl the lines, of kMegatron the
  // index tells where documents begin, of the others `eos` or `bos`, one of which is then needed.
  bool documents = false;
};

// Where and how tokens are made that cannot be mapped as they are.
struct TokenWork {
  std::string folder;  // Made when it is needed.
  int threads = 1;
  // Called about once a second with what is waited for, and at last with "". May be null.
  std::function<void(const std::string&)> on_wait;
  // How long another process that makes the tokens may make no progress.
  absl::Duration patience = absl::Minutes(5);
  std::string tokenizer_program;  // Of PieceTokenizerOptions.
  // Where tokens are made of text: no more than these are wanted (0: all). A few more are made.
  int64_t tokens_max = 0;
  // Called when tokens were made, with the bytes of their text. May be null.
  std::function<void(int64_t)> on_made;
};

// Opens the source; makes its tokens if nobody has before (token_cache.h). Blocks for as long.
// NOT_FOUND: the path, the tokenizer, or the program that it needs is not there. INVALID_ARGUMENT:
// damaged or of another kind; empty; a token is not below `vocab`, or the tokenizer has more than
// `vocab` tokens: the message names file and place; or documents are wanted, and nothing tells them.
// DEADLINE_EXCEEDED: another process stands still that makes the tokens. INTERNAL: they cannot be
// written. Else the system's error.
absl::StatusOr<std::unique_ptr<Dataset>> OpenSource(const SourceOptions& options, int64_t vocab,
                                                    const TokenWork& work);

// The files of the source, in their order; of kMegatron prefixes. Errors: ListDataFiles.
absl::StatusOr<std::vector<std::string>> FilesOf(const SourceOptions& options);

// The tokenizer that it names, and the token that it puts behind each document. kText and kJsonl.
struct SourceTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;
  int64_t eos = kNoToken;
  TextParts parts = TextParts::kLines;  // In which it wants text files.
};
// Also INVALID_ARGUMENT: a tokenizer.json without the usual tokens for the end of a text, and no eos.
absl::StatusOr<SourceTokenizer> TokenizerOf(const SourceOptions& options, int processes,
                                            const std::string& program);

}  // namespace longhaul
