// Conversations as rows of one width, with a loss mask: what chat_maker.h wrote. A row has one
// conversation or several; what they leave of it is filled with token 0, on which no loss is.
//
// Files: PREFIX.bin and PREFIX.idx of Megatron-LM, whose documents are the rows without their
// filling; and PREFIX.mask with a byte for each token: kChatCounts if the loss is on it, and
// kChatBegins if a conversation begins with it; and at its end ChatCounts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/io/read_only_file.h"
#include "worker/data/dataset.h"
#include "worker/data/file_tokens.h"

namespace longhaul {

inline constexpr uint8_t kChatCounts = 1, kChatBegins = 2;

// Of the source, as three little-endian numbers.
struct ChatCounts {
  int64_t conversations = 0;
  // Those that are longer than a row.
  int64_t cut = 0;
  // Those without a token that counts, of which there is no row.
  int64_t left_out = 0;
};

// Immutable, so thread-safe. As Dataset says.
class ChatRows : public Dataset {
 public:
  // `width`: tokens of a row; longer rows are cut. INVALID_ARGUMENT: the files do not belong
  // together, or have a token that is not below `vocab` (FileTokens::Check). Others: those of
  // ReadOnlyFile.
  static absl::StatusOr<std::unique_ptr<ChatRows>> Open(const std::string& prefix, int64_t width,
                                                        int64_t vocab);

  int64_t tokens() const override { return rows_ * width_; }
  absl::Status Read(int64_t first, absl::Span<int64_t> out) const override;
  absl::Status AppendDocumentStarts(int64_t first, int64_t end,
                                    std::vector<int64_t>& starts) const override;
  const ChatCounts& counts() const { return counts_; }
  // The part of the rows that is not filling.
  double used() const {
    return static_cast<double>(tokens_.tokens()) / static_cast<double>(rows_ * width_);
  }
  int64_t row() const override { return width_; }
  bool masked() const override { return true; }
  absl::Status ReadMask(int64_t first, absl::Span<int64_t> out) const override;

 private:
  ChatRows(TokenPiece piece, ReadOnlyFile mask, const ChatCounts& counts, int64_t width,
           int64_t vocab);
  // A part of a row: of its tokens, then of what fills it.
  struct Part {
    // Its place after the first token that was asked for.
    int64_t at = 0;
    // The first of its tokens in the files, and how many there are.
    int64_t token = 0, tokens = 0;
    int64_t filling = 0;
    // The row's filling begins in this part.
    bool filling_begins = false;
  };
  // Calls `use` with the parts of [first, first + count).
  absl::Status ForParts(int64_t first, int64_t count,
                        absl::FunctionRef<absl::Status(const Part&)> use) const;
  absl::StatusOr<std::vector<uint8_t>> ReadBytes(int64_t token, int64_t tokens) const;

  const std::shared_ptr<const MegatronDocuments> documents_;
  const FileTokens tokens_;
  const ReadOnlyFile mask_;
  const ChatCounts counts_;
  const int64_t rows_, width_;
};

}  // namespace longhaul
