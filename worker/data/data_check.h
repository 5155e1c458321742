// Checks a file of training data: its kind, its content, and its errors. Thread-safe; blocks on the
// disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/control_tokens.h"
#include "worker/data/source.h"

namespace longhaul {

struct DataCheckOptions {
  // Empty: the content and the name tell the kind.
  std::optional<SourceKind> kind;
  // For JSONL.
  std::string field = "text";
  // For JSONL and chat.
  int64_t line_bytes_max = kLineBytesMax;
  // For chat, see SourceOptions.
  std::string chat_template;
  NullRows null_rows = NullRows::kRefuse;
  // For text, JSONL and chat, see SourceOptions. Empty: bytes.
  std::string tokenizer;
  // See SourceOptions. In token files the places of eos are counted, or else of bos.
  std::optional<int64_t> eos, bos;
  // See SourceOptions.
  bool as_is = false, control_tokens = false;
  int width = 0;
  // Tokens must be below it. 0: not known.
  int64_t vocab = 0;
  int sample_tokens = 32;
  int threads = 1;
  std::string tokenizer_program;
};

// Of conversations.
struct ChatReport {
  // Tokens on which the loss is.
  int64_t targets = 0;
  // Conversations that have none.
  int64_t without_targets = 0;
  // Tokens of the longest conversation.
  int64_t longest = 0;
};

struct DataReport {
  std::string path;
  SourceKind kind = SourceKind::kText;
  // The file is of no kind that a job reads: a problem says what it is.
  bool other_format = false;
  // "gzip", "zstd" or empty.
  std::string compression;
  // On disk.
  int64_t bytes = 0;
  // In the part that could be read.
  int64_t tokens = 0;
  // Empty: the file does not mark documents.
  std::optional<int64_t> documents;
  // The largest token.
  std::optional<int64_t> largest;
  // The first tokens; and their text, if the file has text.
  std::vector<int64_t> sample;
  std::string sample_text;
  // The first byte that is not UTF-8, in text that is read as bytes. Bytes train as they are; a
  // tokenizer would refuse them.
  std::optional<int64_t> not_utf8_at;
  // Of chat. Its documents are conversations.
  std::optional<ChatReport> chat;
  // With a tokenizer: texts that spell its control tokens out.
  std::optional<SpelledControlTokens> control_tokens;
  // Of JSONL: rows that NullRows::kSkip left out.
  int64_t null_rows = 0;
  // What is suspicious, and trained on nevertheless.
  std::vector<std::string> warnings;
  // The first kProblemsShown problems.
  std::vector<std::string> problems;
  int64_t problem_count = 0;
};
inline constexpr int64_t kProblemsShown = 10;

// Counts the problem, and keeps it if there are few.
void AddProblem(DataReport& report, absl::string_view problem);

// The name in DataSpec: "text", "jsonl", "nanogpt", "llmc", "megatron", "chat".
std::string KindName(SourceKind kind);

// Tells the kind of a file by its name and content. `path` may also be a prefix of kMegatron.
// Errors: those of ByteStream.
absl::StatusOr<SourceKind> KindOfData(const std::string& path);

// Reads all files of the path to their ends (ListDataFiles; a .bin with its .idx is one), and
// returns a report for each. Damage is in the reports. Errors: the path, the tokenizer or its
// program does not exist or cannot be read; or the tokenizer's file is not valid.
absl::StatusOr<std::vector<DataReport>> CheckData(const std::string& path,
                                                  const DataCheckOptions& options);

}  // namespace longhaul
