#include "worker/data/megatron_index.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "worker/data/check_places.h"

namespace longhaul {
namespace {

constexpr uint64_t kMegatronVersion = 1;
constexpr int64_t kEntryBytes = sizeof(int32_t) + sizeof(int64_t);

constexpr int64_t kWordsAtOnce = 1 << 14;

template <typename Word>
absl::StatusOr<Word> WordAt(const ReadOnlyFile& file, int64_t at) {
  Word word;
  LH_RETURN_IF_ERROR(file.Read(at, {reinterpret_cast<uint8_t*>(&word), sizeof(word)}));
  return word;
}

// Words of a file, one after another.
template <typename Word>
class WordRun {
 public:
  // `count` words from byte `begin` on.
  WordRun(const ReadOnlyFile& file, int64_t begin, int64_t count)
      : file_(file), begin_(begin), left_(count) {}

  // At most `count` times.
  absl::StatusOr<Word> Next() {
    if (next_ == words_.size()) {
      words_.resize(std::min(kWordsAtOnce, left_));
      const size_t bytes = words_.size() * sizeof(Word);
      LH_RETURN_IF_ERROR(file_.Read(begin_, {reinterpret_cast<uint8_t*>(words_.data()), bytes}));
      begin_ += static_cast<int64_t>(bytes);
      left_ -= static_cast<int64_t>(words_.size());
      next_ = 0;
    }
    return words_[next_++];
  }

 private:
  const ReadOnlyFile& file_;
  int64_t begin_, left_;
  std::vector<Word> words_;
  size_t next_ = 0;
};

absl::Status SetType(int type, MegatronIndex& index) {
  switch (type) {
    case 1:
      index.width = 1;
      return absl::OkStatus();
    case 3:
      index.width = 2;
      index.limit = int64_t{1} << 15;
      return absl::OkStatus();
    case 4:
      index.width = 4;
      index.limit = int64_t{1} << 31;
      return absl::OkStatus();
    case 5:
      index.width = 8;
      return absl::OkStatus();
    case 8:
      index.width = 2;
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrFormat("type %d of its values is not an integer type for tokens", type));
  }
}

std::vector<CheckedRun> RunsOf(int64_t entries, IndexCheck check) {
  if (check == IndexCheck::kAll) return {{0, entries}};
  return CheckedRuns(entries, kWordsAtOnce);
}

// Where sequence `at` may begin, of those whose predecessors were not looked at.
bool MayBegin(int64_t begin, const MegatronIndex& index) {
  // So that no sum overflows.
  constexpr int64_t kBytesMax = int64_t{1} << 60;
  return begin >= index.tokens * index.width && begin <= kBytesMax && begin % index.width == 0;
}

absl::Status CheckSequences(const ReadOnlyFile& file, IndexCheck check, MegatronIndex& index) {
  constexpr int64_t kSize = sizeof(int32_t), kBegin = sizeof(int64_t);
  for (const auto& [first, count] : RunsOf(index.sequences, check)) {
    WordRun<int32_t> sizes(file, kMegatronHeaderBytes + first * kSize, count);
    WordRun<int64_t> begins(file, kMegatronHeaderBytes + index.sequences * kSize + first * kBegin,
                            count);
    for (int64_t i = first; i < first + count; ++i) {
      LH_ASSIGN_OR_RETURN(const int32_t size, sizes.Next());
      LH_ASSIGN_OR_RETURN(const int64_t begin, begins.Next());
      if (size < 0) {
        return absl::InvalidArgumentError(
            absl::StrFormat("sequence %d has a negative size, %d", i, size));
      }
      if (i == first && i > 0 && MayBegin(begin, index)) index.tokens = begin / index.width;
      const int64_t expected = index.tokens * index.width;
      if (begin != expected && static_cast<uint32_t>(begin) == static_cast<uint32_t>(expected)) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "sequence %d begins at byte %d of the .bin, expected byte %d: the offset wrapped at "
            "2^31 when the index was written, since lengths were summed in 32 bits (as with NumPy "
            "2). The .bin is good: write the index again, with the sums of its lengths in 64 bits",
            i, begin, expected));
      }
      if (begin != expected) {
        return absl::InvalidArgumentError(
            absl::StrFormat("sequence %d begins at byte %d of the .bin, expected byte %d: "
                            "sequences must lie one after another",
                            i, begin, expected));
      }
      // Does not overflow: a file has fewer than 2^31 sequences.
      index.tokens += size;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDocuments(const ReadOnlyFile& file, int64_t entries, IndexCheck check,
                            const MegatronIndex& index) {
  int64_t before = 0;
  for (const auto& [first, count] : RunsOf(entries, check)) {
    WordRun<int64_t> documents(
        file,
        kMegatronHeaderBytes + index.sequences * kEntryBytes + first * int64_t{sizeof(int64_t)},
        count);
    for (int64_t i = first; i < first + count; ++i) {
      LH_ASSIGN_OR_RETURN(const int64_t at, documents.Next());
      const bool ends = i + 1 == entries;
      if (at < before || at > index.sequences || (i == 0 && at != 0) ||
          (ends && at != index.sequences)) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "document %d begins at sequence %d, which is out of order (of %d sequences)", i, at,
            index.sequences));
      }
      before = at;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MegatronIndex> ReadMegatronIndex(const ReadOnlyFile& file, IndexCheck check) {
  const int64_t size = file.size();
  uint8_t header[kMegatronHeaderBytes] = {};
  if (size >= kMegatronHeaderBytes) LH_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(header)));
  if (std::memcmp(header, kMegatronMagic, kMegatronMagicBytes) != 0)
    return absl::InvalidArgumentError("does not begin as an index of Megatron-LM does (MMIDIDX)");
  const auto word = [&](int at) {
    uint64_t value;
    std::memcpy(&value, header + at, sizeof(value));
    return value;
  };
  const uint64_t version = word(9);
  if (version != kMegatronVersion) {
    return absl::InvalidArgumentError(
        absl::StrFormat("is an index of version %d; version 1 is known", version));
  }
  MegatronIndex index;
  LH_RETURN_IF_ERROR(SetType(header[17], index));
  const uint64_t sequences = word(18), entries = word(26);
  // Bounds the counts by the size of the file, so that no sum overflows.
  const auto most = static_cast<uint64_t>(size);
  const bool fits = sequences <= most && entries <= most &&
                    static_cast<int64_t>(sequences) * kEntryBytes +
                            static_cast<int64_t>(entries) * int64_t{sizeof(int64_t)} ==
                        size - kMegatronHeaderBytes;
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrFormat("holds %d bytes, which %d sequences and %d entries of documents do not "
                        "make: it is cut off, "
                        "or of another kind",
                        size, sequences, entries));
  }
  index.sequences = static_cast<int64_t>(sequences);
  LH_RETURN_IF_ERROR(CheckSequences(file, check, index));
  LH_RETURN_IF_ERROR(CheckDocuments(file, static_cast<int64_t>(entries), check, index));
  index.documents = entries == 0 ? 0 : static_cast<int64_t>(entries) - 1;
  return index;
}

absl::StatusOr<int64_t> MegatronDocumentStart(const ReadOnlyFile& file, const MegatronIndex& index,
                                              int64_t document) {
  constexpr int64_t kWord = sizeof(int64_t);
  const int64_t begins = kMegatronHeaderBytes + index.sequences * int64_t{sizeof(int32_t)};
  const int64_t documents = begins + index.sequences * kWord;
  LH_ASSIGN_OR_RETURN(const int64_t sequence, WordAt<int64_t>(file, documents + document * kWord));
  if (sequence < 0 || sequence >= index.sequences) return index.tokens;
  LH_ASSIGN_OR_RETURN(const int64_t begin, WordAt<int64_t>(file, begins + sequence * kWord));
  return begin / index.width;
}

absl::Status AppendMegatronStarts(const ReadOnlyFile& file, const MegatronIndex& index,
                                  int64_t first, int64_t end, int64_t shift,
                                  std::vector<int64_t>& starts) {
  const auto start_of = [&](int64_t document) {
    return MegatronDocumentStart(file, index, document);
  };
  // Searches the first document that begins at `first` or later.
  int64_t low = 0, high = index.documents;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    LH_ASSIGN_OR_RETURN(const int64_t start, start_of(middle));
    if (start < first) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  // Skips empty documents, which begin where the next one does.
  int64_t next = first;
  for (; low < index.documents; ++low) {
    LH_ASSIGN_OR_RETURN(const int64_t start, start_of(low));
    if (start >= end) break;
    if (start < next) continue;
    starts.push_back(start + shift);
    next = start + 1;
  }
  return absl::OkStatus();
}

}  // namespace longhaul
