// A file's bytes, mapped read-only. Movable; the mapping ends with the object. Thread-safe
// (immutable). What was read of it counts as memory of the process until it is released. If the
// file becomes shorter, or its disk fails, touching what is lost ends the process by a signal: only
// for files that nobody changes (read_only_file.h is for others).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/read_only_file.h"

namespace longhaul {

class MappedFile {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT: not a regular file. Otherwise the system's error,
  // with the path.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  // As it was when it was opened, also if another file has its name now.
  static absl::StatusOr<MappedFile> Map(const ReadOnlyFile& file);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }
  // A part of bytes() that was read and is not needed soon stops counting as memory of this
  // process. It stays valid: who reads it again gets it from the system's cache, or from the disk.
  void Release(absl::Span<const uint8_t> part) const;

 private:
  MappedFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  // Null if the file is empty.
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace longhaul
