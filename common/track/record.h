// TFRecord framing, which TensorBoard's event files use. Each record is its length (8 bytes, little
// endian), the masked CRC32C of the length, the bytes, and their masked CRC32C. See TensorFlow's
// core/lib/io/record_writer.h and core/lib/hash/crc32c.h. Pure, except for reading the file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/filesystem.h"

namespace longhaul {

// Longer records are neither written nor read.
inline constexpr int64_t kRecordBytesMax = 1 << 20;

// The CRC32C, rotated and shifted, so that a checksum of bytes that contain checksums is still
// useful.
uint32_t MaskedCrc32c(absl::string_view bytes);

// Requires at most kRecordBytesMax bytes.
void AppendRecord(absl::string_view payload, std::string* out);

// Calls `on_record` with each good record, from the beginning of the file. Returns where the last
// good one ends; the bytes after it are torn or damaged. Errors: those of the file.
absl::StatusOr<int64_t> ReadRecords(const File& file,
                                    absl::FunctionRef<void(absl::string_view)> on_record);

}  // namespace longhaul
