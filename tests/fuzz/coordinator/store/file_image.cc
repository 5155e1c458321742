#include "tests/fuzz/coordinator/store/file_image.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "common/base/check.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"
#include "coordinator/store/log_format.h"

namespace longhaul::fuzz {
namespace {

// Offsets of FORMAT.md.
constexpr size_t kFrameTypeAt = 8, kFrameSequenceAt = 24, kFrameBodyBytesAt = 32,
                 kFrameDurableAt = 40;
constexpr size_t kLogFileNumberAt = 16, kLogFileBytesAt = 24;
constexpr size_t kEnvelopeSizeAt = 8, kEnvelopeMessageAt = 12;
constexpr size_t kImageBytesMax = 1 << 20;

template <typename T>
T Field(absl::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

void Overwrite(absl::string_view bytes, size_t at, std::string* image) {
  if (at < image->size()) {
    std::copy_n(bytes.data(), std::min(bytes.size(), image->size() - at), image->begin() + at);
  }
}

// Nothing, if no header of a frame is there.
void SealFrame(uint64_t salt, size_t at, std::string* image) {
  const absl::string_view rest = absl::string_view(*image).substr(at);
  if (rest.size() < kFrameHeaderBytes || rest.substr(0, 8) != "LHFRAME2") return;
  FrameHeader header;
  header.type = static_cast<FrameType>(Field<uint32_t>(rest, kFrameTypeAt));
  header.sequence = Field<uint64_t>(rest, kFrameSequenceAt);
  header.body_bytes = Field<uint64_t>(rest, kFrameBodyBytesAt);
  header.durable_upto = Field<uint64_t>(rest, kFrameDurableAt);
  header.body_digest = DigestOf(rest.substr(kFrameHeaderBytes, header.body_bytes));
  Overwrite(EncodeFrameHeader(header, salt), at, image);
}

}  // namespace

void ChangeImage(FuzzInput& input, std::string* image) {
  for (int changes = input.Byte() % 8; changes > 0; --changes) {
    const uint8_t what = input.Byte();
    const size_t where = input.Take<uint32_t>() % (image->size() + 1);
    switch (what % 4) {
      case 0:
        Overwrite(input.Bytes(1), where, image);
        break;
      case 1:
        Overwrite(input.Bytes(8), where, image);
        break;
      case 2:
        image->resize(where);
        break;
      default:
        image->insert(where, std::string(input.String()));
        break;
    }
  }
}

void SealLog(uint64_t salt, std::string* image) {
  if (image->size() >= kLogFileHeaderBytes && image->substr(0, 8) == "LHLOGFI2") {
    const LogFileHeader header = {Field<int64_t>(*image, kLogFileNumberAt),
                                  Field<int64_t>(*image, kLogFileBytesAt)};
    Overwrite(EncodeLogFileHeader(header, salt), 0, image);
  }
  for (size_t at = kLogFileHeaderBytes; at < image->size(); at += kLogAlignment) {
    SealFrame(salt, at, image);
  }
}

void SealSnapshot(std::string* image) {
  if (image->size() < kEnvelopeMessageAt) return;
  const size_t end = kEnvelopeMessageAt + Field<uint32_t>(*image, kEnvelopeSizeAt);
  if (image->size() < end + sizeof(Digest128)) return;
  const Digest128 digest = DigestOf(absl::string_view(*image).substr(0, end));
  FuzzWriter bytes;
  bytes.Put(digest.low).Put(digest.high);
  Overwrite(bytes.Take(), end, image);
}

std::string ReadImage(FileSystem& fs, const std::string& path) {
  const absl::StatusOr<std::string> bytes = ReadFile(fs, path, kImageBytesMax);
  LH_CHECK(bytes.ok(), "a file of ours can be read");
  return *bytes;
}

void WriteImage(FileSystem& fs, const std::string& path, absl::string_view bytes) {
  const absl::StatusOr<std::unique_ptr<File>> file = fs.Create(path);
  LH_CHECK(file.ok() && (*file)->WriteAt(0, bytes).ok(), "memory takes a file");
}

}  // namespace longhaul::fuzz
