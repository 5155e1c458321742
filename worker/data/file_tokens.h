// Tokens of files: unsigned little-endian numbers of 1, 2, 4 or 8 bytes, in one or several pieces.
// token_files.h makes the pieces and knows the formats of files. They are read, not mapped, since
// somebody else may change them: errors of reading are those of ReadOnlyFile, DATA_LOSS with the
// file's name.
#pragma once

#include <cstdint>
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

// INVALID_ARGUMENT: one of the tokens [first, first + count), which the piece must have, is not in
// [0, vocab); the message names file, place and token. Reads them all, unless their type cannot
// hold such numbers.
absl::Status CheckTokens(const TokenPiece& piece, int64_t first, int64_t count, int64_t vocab);
// Of the whole piece.
absl::Status CheckTokens(const TokenPiece& piece, int64_t vocab);

// Copies tokens [first, first + out.size()) of the piece, which must have them.
absl::Status ReadTokens(const TokenPiece& piece, int64_t first, absl::Span<int64_t> out);

class FileTokens : public Dataset {
 public:
  explicit FileTokens(std::vector<TokenPiece> pieces, const DocumentTokens& marks = {},
                      int64_t vocab = std::numeric_limits<int64_t>::max());

  // INVALID_ARGUMENT: as CheckTokens, of small data; of other data, tokens at some places
  // (check_places.h). So its time does not grow with the data: each start of a rank does it. Read
  // checks the rest.
  absl::Status Check() const;
  int64_t tokens() const override { return begins_.back(); }
  absl::Status Read(int64_t first, absl::Span<int64_t> out) const override;
  absl::Status AppendDocumentStarts(int64_t first, int64_t end,
                                    std::vector<int64_t>& starts) const override;
  const std::vector<TokenPiece>& pieces() const { return pieces_; }

 private:
  absl::Status AppendMarked(int64_t first, int64_t end, std::vector<int64_t>& starts) const;
  size_t PieceAt(int64_t token) const;

  std::vector<TokenPiece> pieces_;
  const DocumentTokens marks_;
  const int64_t vocab_;
  // Where each piece begins in the whole sequence; then the end of the sequence.
  std::vector<int64_t> begins_;
};

}  // namespace longhaul
