#include "common/io/read_only_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {

absl::StatusOr<ReadOnlyFile> ReadOnlyFile::Open(const std::string& path) {
  LH_ASSIGN_OR_RETURN(const RegularFile opened, OpenRegularFile(path));
  return ReadOnlyFile(path, opened);
}

ReadOnlyFile::ReadOnlyFile(ReadOnlyFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      opened_by_read_(other.opened_by_read_),
      identity_(other.identity_) {}

ReadOnlyFile& ReadOnlyFile::operator=(ReadOnlyFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(opened_by_read_, other.opened_by_read_);
  std::swap(identity_, other.identity_);
  return *this;
}

ReadOnlyFile::~ReadOnlyFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<ReadOnlyFile> ReadOnlyFile::OpenedByRead() const {
  ReadOnlyFile file(path_, {.descriptor = -1, .identity = identity_});
  file.opened_by_read_ = true;
  if (opened_by_read_) return file;
  struct stat info;
  if (fstat(descriptor_, &info) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", path_));
  file.identity_ = IdentityOf(info);
  return file;
}

absl::Status ReadOnlyFile::Read(int64_t offset, absl::Span<uint8_t> out) const {
  if (opened_by_read_) {
    const absl::StatusOr<ReadOnlyFile> file = Open(path_);
    if (!file.ok()) return absl::DataLossError(file.status().message());
    if (!(file->identity_ == identity_))
      return absl::DataLossError(absl::StrCat(path_, " is not the file that it was"));
    return file->Read(offset, out);
  }
  while (!out.empty()) {
    const ssize_t read = pread(descriptor_, out.data(), out.size(), offset);
    if (read < 0 && errno == EINTR) continue;
    if (read < 0)
      return absl::DataLossError(absl::StrCat("cannot read ", path_, ": ", std::strerror(errno)));
    if (read == 0) {
      // Where the file ends, not where this read began.
      struct stat now = {};
      const int64_t end = fstat(descriptor_, &now) == 0 ? now.st_size : offset;
      return absl::DataLossError(absl::StrCat(path_, " ends at byte ", end, " now; it had ", size_,
                                              " bytes when it was opened"));
    }
    out.remove_prefix(read);
    offset += read;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadRegularFile(const std::string& path, int64_t bytes_max) {
  LH_ASSIGN_OR_RETURN(const ReadOnlyFile file, ReadOnlyFile::Open(path));
  if (file.size() > bytes_max)
    return absl::InvalidArgumentError(absl::StrCat(path, ": is larger than ", bytes_max, " bytes"));
  std::string text(file.size(), '\0');
  LH_RETURN_IF_ERROR(
      file.Read(0, {reinterpret_cast<uint8_t*>(text.data()), static_cast<size_t>(text.size())}));
  return text;
}

absl::StatusOr<Digest128> DigestOfFile(const ReadOnlyFile& file) {
  constexpr int64_t kPieceBytes = 1 << 20;
  Digester digester;
  std::vector<uint8_t> piece(std::min(kPieceBytes, file.size()));
  for (int64_t at = 0; at < file.size(); at += kPieceBytes) {
    const auto part = absl::MakeSpan(piece).subspan(0, std::min(kPieceBytes, file.size() - at));
    LH_RETURN_IF_ERROR(file.Read(at, part));
    digester.Update({reinterpret_cast<const char*>(part.data()), part.size()});
  }
  return digester.Value();
}

}  // namespace longhaul
