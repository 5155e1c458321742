// Documents of text files and of JSONL files, one after another. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/byte_stream.h"

namespace longhaul {

inline constexpr int64_t kLineBytesMax = 64 << 20;
inline constexpr size_t kPieceBytesMax = 1 << 20;
inline constexpr int kJsonDepthMax = 512;

// A part of a document, or its end. Documents come in parts of at most kPieceBytesMax, cut behind
// the end of a line or a space where there is one, never inside a UTF-8 character.
struct DocumentPart {
  std::string text;
  bool ends_document = false;
};

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  // False: no more. INVALID_ARGUMENT: the file is damaged: compressed bytes; in JSONL a line that is
  // no JSON object, has no such text field, is deeper than kJsonDepthMax or longer than
  // kLineBytesMax. The message names file and line. Else the system's error. Blocks on the disk.
  virtual absl::StatusOr<bool> Next(DocumentPart& part) = 0;
  // After an error of Next: it was of one line alone, and Next goes on behind it.
  virtual bool CanGoOn() const { return false; }
  // Bytes of the file, as it is on disk, that were taken so far.
  virtual int64_t taken() const = 0;
};

enum class TextParts {
  kLines,
  // Of kTextPieceBytes, to the end of a line, as the Python tool cuts text: for tokenizers to which the
  // end of a line is not the end of a word.
  kPieces,
};
inline constexpr size_t kTextPieceBytes = 1 << 16;

// The whole file is a document, in such parts. Any bytes. Errors: ByteStream::Open.
absl::StatusOr<std::unique_ptr<DocumentReader>> OpenTextDocument(
    const std::string& path, TextParts parts = TextParts::kLines);

// Each line that is not blank is a JSON object (UTF-8), whose field `field` is a document.
absl::StatusOr<std::unique_ptr<DocumentReader>> OpenJsonlDocuments(const std::string& path,
                                                                   const std::string& field);

// The text of the field of one line. INVALID_ARGUMENT: see Next, without file and line.
absl::StatusOr<std::string> TextOfJsonLine(absl::string_view line, absl::string_view field);

}  // namespace longhaul
