// Makes files of the log. A file gets its name only when it is complete and durable. So a file with
// the name has a good header and its full size, or is damaged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/filesystem.h"

namespace longhaul {

struct LogFileOptions {
  int64_t file_bytes = 64 << 20;
  uint64_t salt = 0;
};

// A file without frames.
struct SpareFile {
  // 0 if there is none.
  int64_t number = 0;
  std::shared_ptr<File> file;
  int64_t bytes = 0;
};

// Makes file `number`. RESOURCE_EXHAUSTED: the disk is full; no file was made, and its space was
// given back. A failed sync is marked fatal (fatal.h). Blocks.
absl::StatusOr<SpareFile> MakeLogFile(FileSystem& fs, const std::string& dir, int64_t number,
                                      int64_t bytes, uint64_t salt);

// Makes a file without frames larger. Errors as above; after RESOURCE_EXHAUSTED the file is
// unchanged.
absl::StatusOr<SpareFile> GrowLogFile(const SpareFile& spare, int64_t bytes, uint64_t salt);

// Changes the header, durably, so that the file ends at `bytes`; then cuts it off there. Errors as
// above.
absl::Status EndLogFile(File& file, int64_t number, int64_t bytes, uint64_t salt);

}  // namespace longhaul
