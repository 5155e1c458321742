#include "worker/data/mapped_tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace longhaul {
namespace {

constexpr int64_t kCheckedAtOnce = 1 << 14, kMarksAtOnce = 512;

template <typename Word>
Word LoadWord(const uint8_t* at) {
  Word word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

const uint8_t* BytesAt(const TokenPiece& piece, int64_t token) {
  return piece.file->bytes().data() + piece.offset + token * piece.width;
}

template <typename Word>
void CopyWords(const uint8_t* from, absl::Span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<int64_t>(LoadWord<Word>(from + i * sizeof(Word)));
}

// The largest token of a run. The loop has no branch, so it is as fast as memory.
template <typename Word>
int64_t FindTooLarge(const TokenPiece& piece, uint64_t end) {
  for (int64_t first = 0; first < piece.count; first += kCheckedAtOnce) {
    const int64_t count = std::min(kCheckedAtOnce, piece.count - first);
    const uint8_t* const run = BytesAt(piece, first);
    Word largest = 0;
    for (int64_t i = 0; i < count; ++i)
      largest = std::max(largest, LoadWord<Word>(run + i * sizeof(Word)));
    if (largest < end) continue;
    int64_t at = 0;
    while (LoadWord<Word>(run + at * sizeof(Word)) < end) ++at;
    return first + at;
  }
  return -1;
}

int64_t FindOutside(const TokenPiece& piece, uint64_t end) {
  switch (piece.width) {
    case 1:
      return end > UINT8_MAX ? -1 : FindTooLarge<uint8_t>(piece, end);
    case 2:
      return end > UINT16_MAX ? -1 : FindTooLarge<uint16_t>(piece, end);
    case 4:
      return end > UINT32_MAX ? -1 : FindTooLarge<uint32_t>(piece, end);
    default:
      return FindTooLarge<uint64_t>(piece, end);
  }
}

}  // namespace

absl::Status CheckTokens(const TokenPiece& piece, int64_t vocab) {
  LH_CHECK(vocab > 0, "a vocabulary has tokens");
  const int64_t at = FindOutside(piece, static_cast<uint64_t>(std::min(vocab, piece.limit)));
  if (at < 0) return absl::OkStatus();
  int64_t token;
  ReadTokens(piece, at, absl::MakeSpan(&token, 1));
  if (token < 0 || token >= piece.limit) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: token %d (at byte %d) is negative, or no token at all", piece.path, at,
                        piece.offset + at * piece.width));
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: token %d (at byte %d) is %d, not below the vocab %d; the model's vocab must be at least "
      "the tokenizer's",
      piece.path, at, piece.offset + at * piece.width, token, vocab));
}

void ReadTokens(const TokenPiece& piece, int64_t first, absl::Span<int64_t> out) {
  const uint8_t* const from = BytesAt(piece, first);
  switch (piece.width) {
    case 1:
      return CopyWords<uint8_t>(from, out);
    case 2:
      return CopyWords<uint16_t>(from, out);
    case 4:
      return CopyWords<uint32_t>(from, out);
    default:
      return CopyWords<uint64_t>(from, out);
  }
}

MappedTokens::MappedTokens(std::vector<TokenPiece> pieces, const DocumentTokens& marks)
    : pieces_(std::move(pieces)), marks_(marks), begins_{0} {
  for (const TokenPiece& piece : pieces_) begins_.push_back(begins_.back() + piece.count);
}

void MappedTokens::Read(int64_t first, absl::Span<int64_t> out) const {
  LH_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens(),
           "read past the data");
  if (out.empty()) return;
  size_t piece = PieceAt(first);
  int64_t offset = first - begins_[piece];
  for (size_t done = 0; done < out.size(); ++piece, offset = 0) {
    const absl::Span<int64_t> part = out.subspan(done, pieces_[piece].count - offset);
    if (!part.empty()) ReadTokens(pieces_[piece], offset, part);
    done += part.size();
  }
}

void MappedTokens::AppendDocumentStarts(int64_t first, int64_t end,
                                        std::vector<int64_t>& starts) const {
  LH_CHECK(0 <= first && first <= end && end <= tokens(), "read past the data");
  if (first == end) return;
  AppendMarked(first, end, starts);
  for (size_t i = PieceAt(first); i < pieces_.size() && begins_[i] < end; ++i) {
    const TokenPiece& piece = pieces_[i];
    if (piece.begins_document && piece.count > 0 && begins_[i] >= first)
      starts.push_back(begins_[i]);
    if (piece.documents == nullptr) continue;
    AppendMegatronStarts(piece.documents->file.bytes(), piece.documents->index,
                         std::max<int64_t>(0, first - begins_[i]),
                         std::min(end - begins_[i], piece.count), begins_[i], starts);
  }
}

void MappedTokens::AppendMarked(int64_t first, int64_t end, std::vector<int64_t>& starts) const {
  if (marks_.eos == kNoToken && marks_.bos == kNoToken) return;
  // With the token before them.
  int64_t read[kMarksAtOnce + 1];
  for (; first < end; first += kMarksAtOnce) {
    const int64_t before = std::max<int64_t>(0, first - 1),
                  run = std::min(kMarksAtOnce, end - first);
    Read(before, absl::MakeSpan(read, first + run - before));
    for (int64_t t = first; t < first + run; ++t) {
      const bool ended = t == 0 || (marks_.eos != kNoToken && read[t - 1 - before] == marks_.eos);
      if (ended || (marks_.bos != kNoToken && read[t - before] == marks_.bos)) starts.push_back(t);
    }
  }
}

size_t MappedTokens::PieceAt(int64_t token) const {
  return std::upper_bound(begins_.begin(), begins_.end(), token) - begins_.begin() - 1;
}

std::string MappedTokens::Locate(int64_t at) const {
  LH_CHECK(0 <= at && at < tokens(), "a token past the data");
  const size_t piece = PieceAt(at);
  return absl::StrFormat("%s: token %d", pieces_[piece].path, at - begins_[piece]);
}

}  // namespace longhaul
