// Documents to tokens, many parts at once, with the tokens that a source puts around each document.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/documents.h"
#include "worker/data/source.h"

namespace longhaul {

class DocumentEncoder {
 public:
  // Takes the tokens of a part, in the order of the parts.
  using Sink = std::function<absl::Status(absl::Span<const int32_t> tokens, bool ends_document)>;
  struct Batch {
    size_t bytes = 0, texts = 0;  // Parts are encoded when there are so many, or more.
  };
  // `tokenizer` outlives it.
  DocumentEncoder(const SourceTokenizer* tokenizer, Batch batch, Sink sink);

  // Whether what was added is encoded now. May block. Errors: those of the tokenizer and of the
  // sink.
  absl::StatusOr<bool> Add(DocumentPart part);
  // Encodes what is left.
  absl::Status Flush();
  // Of text that was encoded.
  int64_t text_bytes() const { return text_bytes_; }

 private:
  const SourceTokenizer* const tokenizer_;
  const Batch batch_;
  const Sink sink_;
  std::vector<std::string> texts_;
  std::vector<bool> ends_;
  size_t size_ = 0;
  bool begins_ = true;  // The next part begins a document.
  int64_t text_bytes_ = 0;
  std::vector<std::vector<int32_t>> tokens_;
};

}  // namespace longhaul
