// A regular file, which somebody else may change, or whose disk may fail, while it is read: then a
// read is an error. For reads at many random places mapped_file.h is faster.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/digest.h"
#include "common/io/regular_file.h"

namespace longhaul {

// Movable. Thread-safe (immutable); reads block on the disk.
class ReadOnlyFile {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT: not a regular file. Otherwise the system's error,
  // with the path.
  static absl::StatusOr<ReadOnlyFile> Open(const std::string& path);
  ReadOnlyFile(ReadOnlyFile&& other) noexcept;
  ReadOnlyFile& operator=(ReadOnlyFile&& other) noexcept;
  ~ReadOnlyFile();

  // The same file, which is opened for each read: for data of more files than a process may have
  // open. Its reads are DATA_LOSS, too, if another file has come to its path, or it was written to.
  absl::StatusOr<ReadOnlyFile> OpenedByRead() const;

  const std::string& path() const { return path_; }
  // When it was opened.
  int64_t size() const { return size_; }
  // DATA_LOSS: the file ends earlier now, or cannot be read.
  absl::Status Read(int64_t offset, absl::Span<uint8_t> out) const;

 private:
  ReadOnlyFile(std::string path, const RegularFile& opened)
      : path_(std::move(path)),
        descriptor_(opened.descriptor),
        size_(opened.identity.size),
        identity_(opened.identity) {}

  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
  // With opened_by_read_ there is no descriptor.
  bool opened_by_read_ = false;
  FileIdentity identity_;
};

// All of a file, as a text. INVALID_ARGUMENT: it has more than `bytes_max`. Otherwise the errors of
// ReadOnlyFile.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, int64_t bytes_max);

// Of a file that may be larger than the memory; it is read in pieces. DATA_LOSS as Read.
absl::StatusOr<Digest128> DigestOfFile(const ReadOnlyFile& file);

}  // namespace longhaul
