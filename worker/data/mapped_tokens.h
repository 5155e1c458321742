// Tokens of files that are mapped into memory: unsigned little-endian numbers of 1, 2, 4 or 8
// bytes, piece after piece. The maker of the pieces knows the formats of files (token_files.h).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/mapped_file.h"
#include "worker/data/dataset.h"
#include "worker/data/megatron_index.h"
#include "worker/data/tokenizer.h"

namespace longhaul {

// The index of a piece that Megatron-LM's tools wrote.
struct MegatronDocuments {
  MappedFile file;
  MegatronIndex index;
};

// Tokens that lie one after another in a file.
struct TokenPiece {
  std::shared_ptr<const MappedFile> file;
  std::string path;
  int64_t offset = 0;  // Bytes from the file's beginning; offset + count * width are within it.
  int64_t count = 0;
  int width = 1;
  // Numbers from here on are no tokens: the type in the file is a signed one.
  int64_t limit = std::numeric_limits<int64_t>::max();
  // Where documents begin in it: with its first token; where the index says.
  bool begins_document = false;
  std::shared_ptr<const MegatronDocuments> documents;
};

// Tokens that mark documents, for data whose pieces do not: behind each, before each. kNoToken: none.
struct DocumentTokens {
  int64_t eos = kNoToken, bos = kNoToken;
};

// OK: each token is at least 0 and below `vocab`. Else INVALID_ARGUMENT with file, place and token.
// Reads the whole piece, unless its type cannot hold others.
absl::Status CheckTokens(const TokenPiece& piece, int64_t vocab);

// Copies tokens [first, first + out.size()) of the piece, which has them.
void ReadTokens(const TokenPiece& piece, int64_t first, absl::Span<int64_t> out);

class MappedTokens : public Dataset {
 public:
  explicit MappedTokens(std::vector<TokenPiece> pieces, const DocumentTokens& marks = {});

  int64_t tokens() const override { return begins_.back(); }
  void Read(int64_t first, absl::Span<int64_t> out) const override;
  void AppendDocumentStarts(int64_t first, int64_t end,
                            std::vector<int64_t>& starts) const override;
  std::string Locate(int64_t at) const override;
  const std::vector<TokenPiece>& pieces() const { return pieces_; }

 private:
  void AppendMarked(int64_t first, int64_t end, std::vector<int64_t>& starts) const;
  size_t PieceAt(int64_t token) const;

  std::vector<TokenPiece> pieces_;
  const DocumentTokens marks_;
  std::vector<int64_t> begins_;  // Of each piece in the whole; then its end.
};

}  // namespace longhaul
