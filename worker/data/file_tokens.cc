#include "worker/data/file_tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/data/check_places.h"

namespace longhaul {
namespace {

constexpr int64_t kCheckedAtOnce = 1 << 14, kMarksAtOnce = 512;
// At each place that Check looks at.
constexpr int64_t kCheckedRun = 1 << 16;

int64_t PlaceOf(const TokenPiece& piece, int64_t token) {
  return piece.offset + token * piece.width;
}

template <typename Word>
absl::Span<uint8_t> BytesOf(absl::Span<Word> words) {
  return {reinterpret_cast<uint8_t*>(words.data()), words.size() * sizeof(Word)};
}

// The bytes of the words are at the end of `out`: no token is written there before it was taken.
template <typename Word>
void Widen(absl::Span<int64_t> out) {
  const uint8_t* const from =
      reinterpret_cast<const uint8_t*>(out.data() + out.size()) - out.size() * sizeof(Word);
  for (size_t i = 0; i < out.size(); ++i) {
    Word word;
    std::memcpy(&word, from + i * sizeof(Word), sizeof(Word));
    out[i] = static_cast<int64_t>(word);
  }
}

// The place of the first token that is too large, or -1. The loop over a run has no branch, so it
// is as fast as memory.
template <typename Word>
absl::StatusOr<int64_t> FindTooLarge(const TokenPiece& piece, int64_t begin, int64_t count,
                                     uint64_t end) {
  std::vector<Word> buffer(std::min(kCheckedAtOnce, count));
  for (int64_t done = 0; done < count; done += kCheckedAtOnce) {
    const auto run = absl::MakeSpan(buffer).subspan(0, std::min(kCheckedAtOnce, count - done));
    LH_RETURN_IF_ERROR(piece.file->Read(PlaceOf(piece, begin + done), BytesOf(run)));
    Word largest = 0;
    for (const Word word : run) largest = std::max(largest, word);
    if (largest < end) continue;
    int64_t at = 0;
    while (run[at] < end) ++at;
    return begin + done + at;
  }
  return -1;
}

absl::StatusOr<int64_t> FindOutside(const TokenPiece& piece, int64_t first, int64_t count,
                                    uint64_t end) {
  switch (piece.width) {
    case 1:
      return end > UINT8_MAX ? -1 : FindTooLarge<uint8_t>(piece, first, count, end);
    case 2:
      return end > UINT16_MAX ? -1 : FindTooLarge<uint16_t>(piece, first, count, end);
    case 4:
      return end > UINT32_MAX ? -1 : FindTooLarge<uint32_t>(piece, first, count, end);
    default:
      return FindTooLarge<uint64_t>(piece, first, count, end);
  }
}

// What is wrong with the token at `at` of the piece.
std::string WordsOfOutside(const TokenPiece& piece, int64_t at, int64_t token, int64_t vocab) {
  const std::string place =
      absl::StrFormat("%s: token %d (at byte %d) is", piece.file->path(), at, PlaceOf(piece, at));
  if (token < 0 || token >= piece.limit)
    return absl::StrCat(place, " negative, or no token at all");
  return absl::StrFormat(
      "%s %d, not below the vocab %d; the model's vocab must be at least the tokenizer's", place,
      token, vocab);
}

}  // namespace

absl::Status CheckTokens(const TokenPiece& piece, int64_t first, int64_t count, int64_t vocab) {
  LH_CHECK(vocab > 0, "a vocabulary has tokens");
  LH_ASSIGN_OR_RETURN(
      const int64_t at,
      FindOutside(piece, first, count, static_cast<uint64_t>(std::min(vocab, piece.limit))));
  if (at < 0) return absl::OkStatus();
  int64_t token;
  LH_RETURN_IF_ERROR(ReadTokens(piece, at, absl::MakeSpan(&token, 1)));
  return absl::InvalidArgumentError(WordsOfOutside(piece, at, token, vocab));
}

absl::Status CheckTokens(const TokenPiece& piece, int64_t vocab) {
  return CheckTokens(piece, 0, piece.count, vocab);
}

absl::Status ReadTokens(const TokenPiece& piece, int64_t first, absl::Span<int64_t> out) {
  const absl::Span<uint8_t> bytes = BytesOf(out);
  LH_RETURN_IF_ERROR(piece.file->Read(PlaceOf(piece, first),
                                      bytes.last(out.size() * static_cast<size_t>(piece.width))));
  switch (piece.width) {
    case 1:
      Widen<uint8_t>(out);
      break;
    case 2:
      Widen<uint16_t>(out);
      break;
    case 4:
      Widen<uint32_t>(out);
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

FileTokens::FileTokens(std::vector<TokenPiece> pieces, const DocumentTokens& marks, int64_t vocab)
    : pieces_(std::move(pieces)), marks_(marks), vocab_(vocab), begins_{0} {
  for (const TokenPiece& piece : pieces_) begins_.push_back(begins_.back() + piece.count);
}

absl::Status FileTokens::Check() const {
  for (const auto& [first, count] : CheckedRuns(tokens(), kCheckedRun)) {
    for (size_t i = PieceAt(first); i < pieces_.size() && begins_[i] < first + count; ++i) {
      const int64_t begin = std::max(first, begins_[i]);
      const int64_t end = std::min(first + count, begins_[i + 1]);
      if (begin < end)
        LH_RETURN_IF_ERROR(CheckTokens(pieces_[i], begin - begins_[i], end - begin, vocab_));
    }
  }
  return absl::OkStatus();
}

absl::Status FileTokens::Read(int64_t first, absl::Span<int64_t> out) const {
  LH_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens(),
           "read past the data");
  if (out.empty()) return absl::OkStatus();
  size_t piece = PieceAt(first);
  int64_t offset = first - begins_[piece];
  for (size_t done = 0; done < out.size(); ++piece, offset = 0) {
    const absl::Span<int64_t> part = out.subspan(done, pieces_[piece].count - offset);
    if (!part.empty()) LH_RETURN_IF_ERROR(ReadTokens(pieces_[piece], offset, part));
    // The model would read outside its embedding.
    const int64_t end = std::min(vocab_, pieces_[piece].limit);
    for (size_t i = 0; i < part.size(); ++i) {
      if (part[i] >= 0 && part[i] < end) continue;
      return absl::DataLossError(
          WordsOfOutside(pieces_[piece], offset + static_cast<int64_t>(i), part[i], vocab_));
    }
    done += part.size();
  }
  return absl::OkStatus();
}

absl::Status FileTokens::AppendDocumentStarts(int64_t first, int64_t end,
                                              std::vector<int64_t>& starts) const {
  LH_CHECK(0 <= first && first <= end && end <= tokens(), "read past the data");
  if (first == end) return absl::OkStatus();
  LH_RETURN_IF_ERROR(AppendMarked(first, end, starts));
  for (size_t i = PieceAt(first); i < pieces_.size() && begins_[i] < end; ++i) {
    const TokenPiece& piece = pieces_[i];
    if (piece.begins_document && piece.count > 0 && begins_[i] >= first)
      starts.push_back(begins_[i]);
    if (piece.documents == nullptr) continue;
    LH_RETURN_IF_ERROR(AppendMegatronStarts(
        piece.documents->file, piece.documents->index, std::max<int64_t>(0, first - begins_[i]),
        std::min(end - begins_[i], piece.count), begins_[i], starts));
  }
  return absl::OkStatus();
}

absl::Status FileTokens::AppendMarked(int64_t first, int64_t end,
                                      std::vector<int64_t>& starts) const {
  if (marks_.eos == kNoToken && marks_.bos == kNoToken) return absl::OkStatus();
  // With the token before them.
  int64_t read[kMarksAtOnce + 1];
  for (; first < end; first += kMarksAtOnce) {
    const int64_t before = std::max<int64_t>(0, first - 1),
                  run = std::min(kMarksAtOnce, end - first);
    LH_RETURN_IF_ERROR(Read(before, absl::MakeSpan(read, first + run - before)));
    for (int64_t t = first; t < first + run; ++t) {
      const bool ended = t == 0 || (marks_.eos != kNoToken && read[t - 1 - before] == marks_.eos);
      if (ended || (marks_.bos != kNoToken && read[t - before] == marks_.bos)) starts.push_back(t);
    }
  }
  return absl::OkStatus();
}

size_t FileTokens::PieceAt(int64_t token) const {
  return std::upper_bound(begins_.begin(), begins_.end(), token) - begins_.begin() - 1;
}

}  // namespace longhaul
