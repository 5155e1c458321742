#include "worker/data/megatron_index.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

constexpr uint64_t kMegatronVersion = 1;
constexpr int64_t kEntryBytes = sizeof(int32_t) + sizeof(int64_t);

template <typename Word>
Word WordAt(absl::Span<const uint8_t> bytes, int64_t at) {
  Word word;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return word;
}

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
      return absl::InvalidArgumentError(absl::StrFormat(
          "type %d of its values is no whole number that tokens are kept in", type));
  }
}

absl::Status CheckSequences(absl::Span<const uint8_t> bytes, MegatronIndex& index) {
  const int64_t begins = kMegatronHeaderBytes + index.sequences * int64_t{sizeof(int32_t)};
  for (int64_t i = 0; i < index.sequences; ++i) {
    const int32_t size =
        WordAt<int32_t>(bytes, kMegatronHeaderBytes + i * int64_t{sizeof(int32_t)});
    const int64_t begin = WordAt<int64_t>(bytes, begins + i * int64_t{sizeof(int64_t)});
    if (size < 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("sequence %d has a negative size, %d", i, size));
    }
    if (begin != index.tokens * index.width) {
      return absl::InvalidArgumentError(
          absl::StrFormat("sequence %d begins at byte %d of the .bin, expected byte %d: sequences "
                          "must lie one after another",
                          i, begin, index.tokens * index.width));
    }
    // Does not overflow: a file has fewer than 2^31 sequences.
    index.tokens += size;
  }
  return absl::OkStatus();
}

absl::Status CheckDocuments(absl::Span<const uint8_t> bytes, int64_t entries,
                            const MegatronIndex& index) {
  const int64_t first = kMegatronHeaderBytes + index.sequences * kEntryBytes;
  int64_t before = 0;
  for (int64_t i = 0; i < entries; ++i) {
    const int64_t at = WordAt<int64_t>(bytes, first + i * int64_t{sizeof(int64_t)});
    const bool ends = i + 1 == entries;
    if (at < before || at > index.sequences || (i == 0 && at != 0) ||
        (ends && at != index.sequences)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "document %d begins at sequence %d, which is out of order (of %d sequences)", i, at,
          index.sequences));
    }
    before = at;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MegatronIndex> ReadMegatronIndex(absl::Span<const uint8_t> bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < kMegatronHeaderBytes ||
      std::memcmp(bytes.data(), kMegatronMagic, kMegatronMagicBytes) != 0) {
    return absl::InvalidArgumentError("does not begin as an index of Megatron-LM does (MMIDIDX)");
  }
  const auto version = WordAt<uint64_t>(bytes, 9);
  if (version != kMegatronVersion) {
    return absl::InvalidArgumentError(
        absl::StrFormat("is an index of version %d; version 1 is known", version));
  }
  MegatronIndex index;
  LH_RETURN_IF_ERROR(SetType(bytes[17], index));
  const auto sequences = WordAt<uint64_t>(bytes, 18), entries = WordAt<uint64_t>(bytes, 26);
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
  LH_RETURN_IF_ERROR(CheckSequences(bytes, index));
  LH_RETURN_IF_ERROR(CheckDocuments(bytes, static_cast<int64_t>(entries), index));
  index.documents = entries == 0 ? 0 : static_cast<int64_t>(entries) - 1;
  return index;
}

void AppendMegatronStarts(absl::Span<const uint8_t> bytes, const MegatronIndex& index,
                          int64_t first, int64_t end, int64_t shift, std::vector<int64_t>& starts) {
  constexpr int64_t kWord = sizeof(int64_t);
  const int64_t begins = kMegatronHeaderBytes + index.sequences * int64_t{sizeof(int32_t)};
  const int64_t documents = begins + index.sequences * kWord;
  const auto start_of = [&](int64_t document) {
    const auto sequence = WordAt<int64_t>(bytes, documents + document * kWord);
    if (sequence < 0 || sequence >= index.sequences) return index.tokens;
    return WordAt<int64_t>(bytes, begins + sequence * kWord) / index.width;
  };
  // Searches the first document that begins at `first` or later.
  int64_t low = 0, high = index.documents;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (start_of(middle) < first) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  // Skips empty documents, which begin where the next one does.
  int64_t next = first;
  for (; low < index.documents; ++low) {
    const int64_t start = start_of(low);
    if (start >= end) break;
    if (start < next) continue;
    starts.push_back(start + shift);
    next = start + 1;
  }
}

}  // namespace longhaul
