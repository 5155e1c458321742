#include "coordinator/store/wal_check.h"

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// The lowest bit is 1 if the checksums are of big-endian words.
constexpr uint32_t kWalMagic = 0x377f0682;
constexpr size_t kWalHeaderBytes = 32, kWalFrameHeaderBytes = 24, kChecksumAt = 24;
// Where a database names its file format, in two bytes (for writing and for reading): 1 legacy, 2
// WAL.
constexpr size_t kFileFormatAt = 18;

uint32_t BigEndian(absl::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

uint32_t Word(absl::string_view bytes, size_t at, bool big_endian) {
  const uint32_t value = BigEndian(bytes, at);
  return big_endian ? value : __builtin_bswap32(value);
}

struct Checksum {
  uint32_t s0 = 0, s1 = 0;
  void Add(absl::string_view bytes, bool big_endian) {
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      s0 += Word(bytes, at, big_endian) + s1;
      s1 += Word(bytes, at + 4, big_endian) + s0;
    }
  }
  bool IsAt(absl::string_view bytes, size_t at) const {
    return BigEndian(bytes, at) == s0 && BigEndian(bytes, at + 4) == s1;
  }
};

class Wal {
 public:
  Wal(absl::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  using OnFrame = absl::FunctionRef<absl::Status(uint32_t page, absl::string_view content,
                                                 uint32_t commit_pages)>;

  // Calls `use` with the frames of whole transactions, in order. Returns their number.
  absl::StatusOr<int64_t> Read(OnFrame use) {
    // The file was being made when its process ended.
    if (bytes_.size() < kWalHeaderBytes) return 0;
    const uint32_t magic = BigEndian(bytes_, 0);
    big_endian_ = (magic & 1) != 0;
    page_bytes_ = BigEndian(bytes_, 8);
    Checksum sum;
    sum.Add(bytes_.substr(0, kChecksumAt), big_endian_);
    const bool sane = page_bytes_ >= 512 && page_bytes_ <= 65536;
    if ((magic & ~1u) != kWalMagic || !sane || !sum.IsAt(bytes_, kChecksumAt)) {
      // SQLite synced the header before it wrote any frame after it.
      return absl::DataLossError(
          absl::StrCat(path_, " is damaged at byte 0: its header is not valid"));
    }
    int64_t good = 0, whole = 0;
    while (good < Frames() && IsOurs(good) && Extends(good, &sum)) {
      if (CommitPages(good) != 0) whole = good + 1;
      ++good;
    }
    LH_RETURN_IF_ERROR(CheckEnd(good));
    for (int64_t i = 0; i < whole; ++i) {
      LH_RETURN_IF_ERROR(use(BigEndian(bytes_, At(i)), Content(i), CommitPages(i)));
    }
    return whole;
  }

 private:
  size_t FrameBytes() const { return kWalFrameHeaderBytes + page_bytes_; }
  int64_t Frames() const {
    return static_cast<int64_t>((bytes_.size() - kWalHeaderBytes) / FrameBytes());
  }
  size_t At(int64_t frame) const { return kWalHeaderBytes + frame * FrameBytes(); }
  uint32_t CommitPages(int64_t frame) const { return BigEndian(bytes_, At(frame) + 4); }
  absl::string_view Content(int64_t frame) const {
    return bytes_.substr(At(frame) + kWalFrameHeaderBytes, page_bytes_);
  }
  // Whether the frame belongs to the current use of the file. SQLite writes a WAL again from its
  // beginning, so older frames may follow the newest ones.
  bool IsOurs(int64_t frame) const {
    return bytes_.substr(At(frame) + 8, 8) == bytes_.substr(16, 8);
  }
  bool Extends(int64_t frame, Checksum* sum) const {
    Checksum next = *sum;
    next.Add(bytes_.substr(At(frame), 8), big_endian_);
    next.Add(Content(frame), big_endian_);
    if (!next.IsAt(bytes_, At(frame) + 16)) return false;
    *sum = next;
    return true;
  }
  // `bad` is the first frame that is not valid.
  absl::Status CheckEnd(int64_t bad) const {
    // A transaction ended at or after `bad`.
    bool ended = false;
    for (int64_t i = bad; i < Frames(); ++i) {
      if (i > bad && !IsOurs(i)) continue;
      if (ended) {
        return absl::DataLossError(absl::StrCat(path_, " is damaged at byte ", At(bad), ": frame ",
                                                bad + 1,
                                                " is not valid, and later ones are of "
                                                "transactions that followed it"));
      }
      ended = IsOurs(i) && CommitPages(i) != 0;
    }
    return absl::OkStatus();
  }

  const absl::string_view bytes_;
  const std::string& path_;
  bool big_endian_ = false;
  size_t page_bytes_ = 0;
};

}  // namespace

absl::StatusOr<int64_t> CheckWal(absl::string_view wal, const std::string& path) {
  return Wal(wal, path).Read(
      [](uint32_t, absl::string_view, uint32_t) { return absl::OkStatus(); });
}

absl::StatusOr<std::string> MergeWal(std::string database, absl::string_view wal,
                                     const std::string& path) {
  const size_t size = database.size();
  LH_RETURN_IF_ERROR(
      Wal(wal, path)
          .Read([&](uint32_t page, absl::string_view content, uint32_t commit_pages) {
            const size_t at = (page - size_t{1}) * content.size(), most = size + wal.size();
            if (page == 0 || at > most || commit_pages * content.size() > most) {
              return absl::DataLossError(absl::StrCat(path, " has page ", page, " of ",
                                                      commit_pages, ", more than there can be"));
            }
            if (database.size() < at + content.size()) database.resize(at + content.size());
            database.replace(at, content.size(), content.data(), content.size());
            if (commit_pages != 0) database.resize(commit_pages * content.size());
            return absl::OkStatus();
          })
          .status());
  if (database.size() > kFileFormatAt + 1)
    database[kFileFormatAt] = database[kFileFormatAt + 1] = 1;
  return database;
}

}  // namespace longhaul
