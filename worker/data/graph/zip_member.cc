#include "worker/data/graph/zip_member.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/read_only_file.h"

namespace longhaul {
namespace {

constexpr int64_t kEndRecord = 22, kEnd64Locator = 20, kEnd64Record = 56, kEntry = 46, kLocal = 30;
constexpr int64_t kCommentMax = 65535, kDirectoryMax = 64 << 20;
constexpr uint32_t kInSixtyFour = 0xffffffff;
constexpr size_t kZipInput = 1 << 18;

template <typename T>
T NumberAt(absl::string_view bytes, int64_t at) {
  T value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

struct ZipEntry {
  int method = 0;
  uint32_t crc = 0;
  int64_t packed = 0, size = 0, local = 0;
};

absl::Status DamagedZip(const ReadOnlyFile& file, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": damaged zip archive: ", what));
}

absl::StatusOr<std::string> BytesAt(const ReadOnlyFile& file, int64_t at, int64_t size) {
  if (at < 0 || size < 0 || at > file.size() || size > file.size() - at)
    return DamagedZip(file, absl::StrCat("byte ", at, " to ", size, " more are not in the file"));
  std::string bytes(size, '\0');
  LH_RETURN_IF_ERROR(
      file.Read(at, {reinterpret_cast<uint8_t*>(bytes.data()), static_cast<size_t>(size)}));
  return bytes;
}

// The central directory.
absl::StatusOr<std::string> DirectoryOf(const ReadOnlyFile& file) {
  const int64_t tail_bytes = std::min(file.size(), kEndRecord + kCommentMax + kEnd64Locator);
  LH_ASSIGN_OR_RETURN(const std::string tail, BytesAt(file, file.size() - tail_bytes, tail_bytes));
  const size_t end = tail.rfind("PK\x05\x06");
  if (end == std::string::npos || tail.size() - end < kEndRecord)
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": not a zip archive (as .npz files are), or one that was cut"));
  auto size = static_cast<int64_t>(NumberAt<uint32_t>(tail, end + 12));
  auto begin = static_cast<int64_t>(NumberAt<uint32_t>(tail, end + 16));
  if (begin == kInSixtyFour || size == kInSixtyFour) {
    if (end < kEnd64Locator || tail.compare(end - kEnd64Locator, 4, "PK\x06\x07") != 0)
      return DamagedZip(file, "its end");
    const auto at = NumberAt<int64_t>(tail, static_cast<int64_t>(end) - kEnd64Locator + 8);
    LH_ASSIGN_OR_RETURN(const std::string record, BytesAt(file, at, kEnd64Record));
    if (record.compare(0, 4, "PK\x06\x06") != 0) return DamagedZip(file, "its end");
    size = NumberAt<int64_t>(record, 40);
    begin = NumberAt<int64_t>(record, 48);
  }
  if (size > kDirectoryMax) return DamagedZip(file, "its directory is too large");
  return BytesAt(file, begin, size);
}

// Takes the sizes of more than 32 bits from the field that holds them.
bool ReadSixtyFour(absl::string_view extra, ZipEntry& entry) {
  while (extra.size() >= 4) {
    const auto id = NumberAt<uint16_t>(extra, 0), size = NumberAt<uint16_t>(extra, 2);
    if (extra.size() - 4 < size) return false;
    absl::string_view field = extra.substr(4, size);
    extra.remove_prefix(4 + size);
    if (id != 1) continue;
    for (int64_t* const value : {&entry.size, &entry.packed, &entry.local}) {
      if (*value != kInSixtyFour) continue;
      if (field.size() < 8) return false;
      *value = NumberAt<int64_t>(field, 0);
      field.remove_prefix(8);
    }
  }
  return true;
}

absl::StatusOr<std::optional<ZipEntry>> FindEntry(const ReadOnlyFile& file,
                                                  const std::string& member) {
  LH_ASSIGN_OR_RETURN(const std::string directory, DirectoryOf(file));
  for (absl::string_view rest = directory; !rest.empty();) {
    if (rest.size() < kEntry || rest.substr(0, 4) != "PK\x01\x02")
      return DamagedZip(file, "its directory");
    const int64_t name = NumberAt<uint16_t>(rest, 28), extra = NumberAt<uint16_t>(rest, 30),
                  comment = NumberAt<uint16_t>(rest, 32);
    if (static_cast<int64_t>(rest.size()) < kEntry + name + extra + comment)
      return DamagedZip(file, "its directory");
    if (rest.substr(kEntry, name) == member) {
      ZipEntry entry{.method = NumberAt<uint16_t>(rest, 10),
                     .crc = NumberAt<uint32_t>(rest, 16),
                     .packed = NumberAt<uint32_t>(rest, 20),
                     .size = NumberAt<uint32_t>(rest, 24),
                     .local = NumberAt<uint32_t>(rest, 42)};
      if (!ReadSixtyFour(rest.substr(kEntry + name, extra), entry) || entry.size < 0 ||
          entry.packed < 0)
        return DamagedZip(file, "a size of its directory");
      if (entry.method != 0 && entry.method != 8)
        return DamagedZip(file, absl::StrCat("compression ", entry.method, " is unknown"));
      return entry;
    }
    rest.remove_prefix(kEntry + name + extra + comment);
  }
  return std::nullopt;
}

class ZipStream : public ByteStream {
 public:
  ZipStream(ReadOnlyFile file, std::string member, const ZipEntry& entry, int64_t data)
      : file_(std::move(file)),
        member_(std::move(member)),
        entry_(entry),
        at_(data),
        packed_left_(entry.packed),
        left_(entry.size),
        input_(kZipInput) {
    ready_ = inflateInit2(&stream_, -15) == Z_OK;
  }
  ~ZipStream() override { inflateEnd(&stream_); }
  int64_t taken() const override { return entry_.packed - packed_left_; }

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    if (!ready_) return absl::ResourceExhaustedError("no memory for zlib");
    out = out.subspan(0, std::min<int64_t>(left_, out.size()));
    if (out.empty()) return 0;
    LH_ASSIGN_OR_RETURN(const size_t read, entry_.method == 0 ? Stored(out) : Inflated(out));
    crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(out.data()), read);
    left_ -= static_cast<int64_t>(read);
    if (left_ == 0 && crc_ != entry_.crc) return Damaged("the checksum does not match");
    return read;
  }

 private:
  absl::Status Damaged(absl::string_view what) const {
    return DamagedZip(file_, absl::StrCat(member_, ": ", what));
  }
  absl::Status Fill(absl::Span<char> out) {
    LH_RETURN_IF_ERROR(file_.Read(at_, {reinterpret_cast<uint8_t*>(out.data()), out.size()}));
    at_ += static_cast<int64_t>(out.size());
    packed_left_ -= static_cast<int64_t>(out.size());
    return absl::OkStatus();
  }
  absl::StatusOr<size_t> Stored(absl::Span<char> out) {
    if (static_cast<int64_t>(out.size()) > packed_left_) return Damaged("it ends early");
    LH_RETURN_IF_ERROR(Fill(out));
    return out.size();
  }
  absl::StatusOr<size_t> Inflated(absl::Span<char> out) {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(out.size(), 1 << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0) {
        const auto piece = absl::MakeSpan(input_).subspan(
            0, std::min<int64_t>(packed_left_, static_cast<int64_t>(input_.size())));
        if (piece.empty()) return Damaged("it ends early");
        LH_RETURN_IF_ERROR(Fill(piece));
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(piece.size());
      }
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END && stream_.avail_out == wanted) return Damaged("it ends early");
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        return Damaged(stream_.msg == nullptr ? "zlib" : stream_.msg);
    }
    return wanted - stream_.avail_out;
  }

  ReadOnlyFile file_;
  const std::string member_;
  const ZipEntry entry_;
  int64_t at_, packed_left_, left_;
  std::vector<char> input_;
  z_stream stream_ = {};
  bool ready_ = false;
  uint32_t crc_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteStream>> OpenZipMember(const std::string& path,
                                                          const std::string& member) {
  LH_ASSIGN_OR_RETURN(ReadOnlyFile file, ReadOnlyFile::Open(path));
  LH_ASSIGN_OR_RETURN(const std::optional<ZipEntry> entry, FindEntry(file, member));
  if (!entry.has_value())
    return absl::NotFoundError(absl::StrCat(path, ": the archive has no ", member));
  LH_ASSIGN_OR_RETURN(const std::string local, BytesAt(file, entry->local, kLocal));
  if (local.compare(0, 4, "PK\x03\x04") != 0) return DamagedZip(file, "the head of a member");
  const int64_t data =
      entry->local + kLocal + NumberAt<uint16_t>(local, 26) + NumberAt<uint16_t>(local, 28);
  if (data > file.size() || entry->packed > file.size() - data)
    return DamagedZip(file, absl::StrCat(member, " is not all in the file"));
  return std::make_unique<ZipStream>(std::move(file), member, *entry, data);
}

absl::StatusOr<bool> HasZipMember(const std::string& path, const std::string& member) {
  LH_ASSIGN_OR_RETURN(const ReadOnlyFile file, ReadOnlyFile::Open(path));
  LH_ASSIGN_OR_RETURN(const std::optional<ZipEntry> entry, FindEntry(file, member));
  return entry.has_value();
}

}  // namespace longhaul
