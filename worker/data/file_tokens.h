// Tokens of files: unsigned little-endian numbers of 1, 2, 4 or 8 bytes, in one or several pieces.
// token_files.h makes the pieces and knows the formats of files. They are read, not mapped, since
// somebody else may change them: errors of reading are those of ReadOnlyFile, DATA_LOSS with the
// file's name.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/read_only_file.h"
#include "worker/data/dataset.h"
#include "worker/data/megatron_index.h"
#include "worker/data/tokenizer.h"

namespace longhaul {

// The index of a piece in Megatron-LM's format.
struct MegatronDocuments {
  ReadOnlyFile file;
  MegatronIndex index;
};

// Contiguous tokens in a file.
struct TokenPiece {
  std::shared_ptr<const ReadOnlyFile> file;
  // In bytes. offset + count * width is within the file.
  int64_t offset = 0;
  int64_t count = 0;
  int width = 1;
  // Numbers from this one on are no tokens, since the type in the file is signed.
  int64_t limit = std::numeric_limits<int64_t>::max();
  // Documents begin with the first token, if `begins_document`, and where the index says, if there
  // is one.
  bool begins_document = false;
  std::shared_ptr<const MegatronDocuments> documents;
};

// Tokens at the end and at the beginning of each document, for data whose pieces do not mark
// documents. kNoToken: there is none.
struct DocumentTokens {
  int64_t eos = kNoToken, bos = kNoToken;
};

// INVALID_ARGUMENT: a token is not in [0, vocab); the message names file, place and token. Reads
// the whole piece, unless its type cannot hold such numbers. `on_read` is called after every 64 MiB
// with the number of tokens that were read; it may be null.
absl::Status CheckTokens(const TokenPiece& piece, int64_t vocab,
                         const std::function<void(int64_t)>& on_read = nullptr);

// Copies tokens [first, first + out.size()) of the piece, which must have them.
absl::Status ReadTokens(const TokenPiece& piece, int64_t first, absl::Span<int64_t> out);

class FileTokens : public Dataset {
 public:
  explicit FileTokens(std::vector<TokenPiece> pieces, const DocumentTokens& marks = {});

  int64_t tokens() const override { return begins_.back(); }
  absl::Status Read(int64_t first, absl::Span<int64_t> out) const override;
  absl::Status AppendDocumentStarts(int64_t first, int64_t end,
                                    std::vector<int64_t>& starts) const override;
  std::string Locate(int64_t at) const override;
  const std::vector<TokenPiece>& pieces() const { return pieces_; }

 private:
  absl::Status AppendMarked(int64_t first, int64_t end, std::vector<int64_t>& starts) const;
  size_t PieceAt(int64_t token) const;

  std::vector<TokenPiece> pieces_;
  const DocumentTokens marks_;
  // Where each piece begins in the whole sequence; then the end of the sequence.
  std::vector<int64_t> begins_;
};

}  // namespace longhaul
