// How a file of the log comes to be: whole and durable before it has its name, so that a file that
// has the name has a good header and its full size, or is damaged.
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
  int64_t number = 0;  // 0: there is none.
  std::shared_ptr<File> file;
  int64_t bytes = 0;
};

// Makes file `number`. RESOURCE_EXHAUSTED: the disk is full; there is no such file and its space was
// given back. A failed sync is marked fatal (fatal.h). Blocks.
absl::StatusOr<SpareFile> MakeLogFile(FileSystem& fs, const std::string& dir, int64_t number,
                                      int64_t bytes, uint64_t salt);

// Makes a file without frames larger. Errors as above: after RESOURCE_EXHAUSTED it is as it was.
absl::StatusOr<SpareFile> GrowLogFile(const SpareFile& spare, int64_t bytes, uint64_t salt);

// Makes the header say that the file ends at `bytes`, durably, then cuts it off there. Errors as
// above.
absl::Status EndLogFile(File& file, int64_t number, int64_t bytes, uint64_t salt);

}  // namespace longhaul
