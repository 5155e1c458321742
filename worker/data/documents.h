// Documents of text files and of JSONL files, one after another. Not thread-safe. Memory: a
// document of JSONL whole, of text a few parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/jsonl_line.h"
#include "worker/data/byte_stream.h"

namespace longhaul {

inline constexpr int64_t kLineBytesMax = int64_t{kLineMibDefault} << 20;
inline constexpr size_t kPieceBytesMax = 1 << 20;
inline constexpr int kJsonDepthMax = 512;

// A part of a document, or its end. A document of JSONL is one part, since no tokenizer makes of
// parts what it makes of the whole. A file of text comes in parts (TextParts), which are never cut
// inside a UTF-8 character.
struct DocumentPart {
  std::string text;
  bool ends_document = false;
  // Of JSONL: the number of its line, from 1.
  int64_t line = 0;
};

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  // False: no more. INVALID_ARGUMENT: the file is damaged: compressed bytes; text that is not UTF-8
  // (TextBytes); in JSONL a line that is no JSON object, has no such text field, is deeper than
  // kJsonDepthMax or too long. The message names file and place. Else the system's error. Blocks on
  // the disk.
  virtual absl::StatusOr<bool> Next(DocumentPart& part) = 0;
  // After an error of Next: it was of one line alone, and Next goes on behind it.
  virtual bool CanGoOn() const { return false; }
  // Bytes of the file, as it is on disk, that were taken so far.
  virtual int64_t taken() const = 0;
  // Rows that NullRows::kSkip left out so far.
  virtual int64_t null_rows() const { return 0; }
};

enum class TextParts {
  // Each line; of one that is longer than kPieceBytesMax parts, cut behind a space where there is
  // one.
  kLines,
  // Of kTextPieceBytes, to the end of a line, as the Python tool cuts text: for tokenizers to which
  // the end of a line is not the end of a word.
  kPieces,
};
inline constexpr size_t kTextPieceBytes = 1 << 16;

// Tokenizers take characters: Next refuses what is not UTF-8, with its place.
enum class TextBytes { kAny, kUtf8 };

// The whole file is a document, in such parts. Errors: ByteStream::Open.
absl::StatusOr<std::unique_ptr<DocumentReader>> OpenTextDocument(
    const std::string& path, TextParts parts = TextParts::kLines,
    TextBytes bytes = TextBytes::kAny);

// What becomes of a row whose text is null.
enum class NullRows { kRefuse, kSkip };

// Each line that is not blank is a JSON object (UTF-8), whose field `field` is a document. It has
// at most `line_bytes_max`, a multiple of 1 MiB.
absl::StatusOr<std::unique_ptr<DocumentReader>> OpenJsonlDocuments(
    const std::string& path, const std::string& field, int64_t line_bytes_max = kLineBytesMax,
    NullRows null_rows = NullRows::kRefuse);

// Each line that is not blank is a document as it is, whatever it is; so long at most.
absl::StatusOr<std::unique_ptr<DocumentReader>> OpenJsonlLines(
    const std::string& path, int64_t line_bytes_max = kLineBytesMax);

// The text of the field of one line. INVALID_ARGUMENT: see Next, without file and line.
absl::StatusOr<std::string> TextOfJsonLine(absl::string_view line, absl::string_view field);

}  // namespace longhaul
