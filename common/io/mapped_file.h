// A regular file mapped into memory, for reading at random places. Somebody else may change it, or
// its disk may fail, meanwhile. A mapped page that cannot be read would end the process (SIGBUS);
// here it reads as zeros, and Check reports it.
//
// So what is read is only as good as a later Check: use values as indices only after a check of
// their range, and results only after Check.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/regular_file.h"

namespace longhaul {

// Movable; the bytes stay where they are. Thread-safe (immutable). Reads of bytes may block on the
// disk.
class MappedFile {
 public:
  // The first call of a process installs a handler of SIGBUS, which passes on what is not about a
  // mapped file. NOT_FOUND: no such file. INVALID_ARGUMENT: not a regular file. RESOURCE_EXHAUSTED:
  // too many are open. Otherwise the system's error, with the path.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  absl::Span<const uint8_t> bytes() const { return {data_, static_cast<size_t>(size_)}; }

  // DATA_LOSS: a page could not be read, the file was cut or written to, or another one has come to
  // its path. Blocks on the disk.
  absl::Status Check() const;

 private:
  MappedFile() = default;

  std::string path_;
  const uint8_t* data_ = nullptr;
  int64_t size_ = 0;
  // In the table of the handler; -1: none.
  int slot_ = -1;
  FileIdentity identity_;
};

}  // namespace longhaul
