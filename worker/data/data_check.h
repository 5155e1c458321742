// What a file of training data is, what is in it, and what is wrong with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/source.h"

namespace longhaul {

struct DataCheckOptions {
  std::optional<SourceKind> kind;  // Absent: told by the content, and by the name.
  std::string field = "text";      // Of JSONL.
  std::string tokenizer;           // Of text and JSONL, as SourceOptions. Empty: bytes.
  std::optional<int64_t> eos;      // As SourceOptions; in token files its places are counted.
  int64_t vocab = 0;               // Tokens must be below it. 0: not known.
  int sample_tokens = 32;
  int threads = 1;
  std::string tokenizer_program;
};

struct DataReport {
  std::string path;
  SourceKind kind = SourceKind::kText;
  std::string compression;            // "gzip", "zstd" or empty.
  int64_t bytes = 0;                  // On disk.
  int64_t tokens = 0;                 // Of what could be read.
  std::optional<int64_t> documents;   // Absent: the file does not mark them.
  std::optional<int64_t> largest;     // Token.
  std::vector<int64_t> sample;        // The first tokens,
  std::string sample_text;            // and their text, where the file has text.
  std::vector<std::string> problems;  // The first kProblemsShown.
  int64_t problem_count = 0;
};
inline constexpr int64_t kProblemsShown = 10;

// As in DataSpec: "text", "jsonl", "nanogpt", "llmc", "megatron".
std::string KindName(SourceKind kind);

// What a file is by its name and content (or, without a file, the prefix of kMegatron). Errors:
// ByteStream::Open, Read.
absl::StatusOr<SourceKind> KindOfData(const std::string& path);

// Reads all files that the path stands for (ListDataFiles; .bin with .idx is one) to their ends; one
// report each. What is damaged is in the reports. Errors: the path, tokenizer or its program is not
// there, or cannot be read; the tokenizer is none.
absl::StatusOr<std::vector<DataReport>> CheckData(const std::string& path,
                                                  const DataCheckOptions& options);

}  // namespace longhaul
