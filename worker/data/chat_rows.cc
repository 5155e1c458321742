#include "worker/data/chat_rows.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/data/token_files.h"

namespace longhaul {

absl::StatusOr<std::unique_ptr<ChatRows>> ChatRows::Open(const std::string& prefix, int64_t width,
                                                         int64_t vocab) {
  LH_CHECK(width > 1, "a row has a token and a target");
  LH_ASSIGN_OR_RETURN(MegatronFile file, OpenMegatronFile(prefix, IndexCheck::kPlaces));
  LH_ASSIGN_OR_RETURN(ReadOnlyFile mask, ReadOnlyFile::Open(prefix + ".mask"));
  ChatCounts counts;
  if (mask.size() != file.tokens.count + static_cast<int64_t>(sizeof(counts))) {
    return absl::InvalidArgumentError(absl::StrCat(mask.path(), ": has ", mask.size(),
                                                   " bytes for ", file.tokens.count, " tokens"));
  }
  LH_RETURN_IF_ERROR(
      mask.Read(file.tokens.count, {reinterpret_cast<uint8_t*>(&counts), sizeof(counts)}));
  std::unique_ptr<ChatRows> rows(
      new ChatRows(std::move(file.tokens), std::move(mask), counts, width, vocab));
  LH_RETURN_IF_ERROR(rows->tokens_.Check());
  return rows;
}

ChatRows::ChatRows(TokenPiece piece, ReadOnlyFile mask, const ChatCounts& counts, int64_t width,
                   int64_t vocab)
    : documents_(piece.documents),
      tokens_({std::move(piece)}, {}, vocab),
      mask_(std::move(mask)),
      counts_(counts),
      rows_(documents_->index.documents),
      width_(width) {}

absl::Status ChatRows::ForParts(int64_t first, int64_t count,
                                absl::FunctionRef<absl::Status(const Part&)> use) const {
  LH_CHECK(first >= 0 && count >= 0 && first + count <= tokens(), "read past the data");
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / width_, offset = (first + done) % width_;
    LH_ASSIGN_OR_RETURN(const int64_t begin,
                        MegatronDocumentStart(documents_->file, documents_->index, row));
    LH_ASSIGN_OR_RETURN(const int64_t end,
                        MegatronDocumentStart(documents_->file, documents_->index, row + 1));
    if (begin < 0 || begin > end || end > tokens_.tokens())
      return absl::DataLossError(absl::StrCat(documents_->file.path(), ": its rows are damaged"));
    const int64_t all = std::min(width_ - offset, count - done), left = end - begin - offset;
    Part part{.at = done, .token = begin + offset, .tokens = std::clamp<int64_t>(left, 0, all)};
    part.filling = all - part.tokens;
    part.filling_begins = part.filling > 0 && left >= 0;
    LH_RETURN_IF_ERROR(use(part));
    done += all;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint8_t>> ChatRows::ReadBytes(int64_t token, int64_t tokens) const {
  std::vector<uint8_t> bytes(tokens);
  if (tokens > 0) LH_RETURN_IF_ERROR(mask_.Read(token, absl::MakeSpan(bytes)));
  return bytes;
}

absl::Status ChatRows::Read(int64_t first, absl::Span<int64_t> out) const {
  return ForParts(first, static_cast<int64_t>(out.size()), [&](const Part& part) -> absl::Status {
    if (part.tokens > 0)
      LH_RETURN_IF_ERROR(tokens_.Read(part.token, out.subspan(part.at, part.tokens)));
    std::fill_n(out.begin() + part.at + part.tokens, part.filling, 0);
    return absl::OkStatus();
  });
}

absl::Status ChatRows::ReadMask(int64_t first, absl::Span<int64_t> out) const {
  return ForParts(first, static_cast<int64_t>(out.size()), [&](const Part& part) -> absl::Status {
    LH_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadBytes(part.token, part.tokens));
    for (int64_t i = 0; i < part.tokens; ++i) out[part.at + i] = bytes[i] & kChatCounts;
    std::fill_n(out.begin() + part.at + part.tokens, part.filling, 0);
    return absl::OkStatus();
  });
}

// The filling is a document of its own, so that it costs little attention.
absl::Status ChatRows::AppendDocumentStarts(int64_t first, int64_t end,
                                            std::vector<int64_t>& starts) const {
  return ForParts(first, end - first, [&](const Part& part) -> absl::Status {
    LH_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadBytes(part.token, part.tokens));
    for (int64_t i = 0; i < part.tokens; ++i) {
      if ((bytes[i] & kChatBegins) != 0) starts.push_back(first + part.at + i);
    }
    if (part.filling_begins) starts.push_back(first + part.at + part.tokens);
    return absl::OkStatus();
  });
}

}  // namespace longhaul
