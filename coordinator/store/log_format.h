// The bytes of the log: files that begin with a header, then frames. FORMAT.md has the tables. Pure
// functions.
//
// Both kinds of headers carry a digest that is seeded with the log's salt. Nobody outside knows the
// salt, so bytes that a pool sent cannot be taken for a frame.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/digest.h"

namespace longhaul {

// Headers and frames begin at multiples of this, so that writing a frame never touches a device
// block that holds an earlier one.
inline constexpr int64_t kLogAlignment = 4096;
inline constexpr int64_t kFrameHeaderBytes = 80;
inline constexpr int64_t kLogFileHeaderBytes = kLogAlignment;

// A place in the log.
struct LogPosition {
  // The number of the file.
  int64_t file = 0;
  // The byte in the file.
  int64_t offset = 0;
};

enum class FrameType : uint32_t { kPart = 1, kDownlink = 2, kCommit = 3 };

struct FrameHeader {
  FrameType type = FrameType::kPart;
  // Counts the frames of the log, from 1.
  uint64_t sequence = 0;
  uint64_t body_bytes = 0;
  // Every frame of a smaller sequence was durable before this one was written.
  uint64_t durable_upto = 0;
  Digest128 body_digest;
};

// A frame in the log.
struct LogFrame {
  FrameType type = FrameType::kPart;
  uint64_t sequence = 0;
  LogPosition body;
  int64_t body_bytes = 0;
  Digest128 body_digest;
};

// Bytes that a frame takes in the file, with padding.
constexpr int64_t FrameBytes(int64_t body_bytes) {
  return (kFrameHeaderBytes + body_bytes + kLogAlignment - 1) / kLogAlignment * kLogAlignment;
}

// The frame whose header begins there.
LogFrame FrameAt(const FrameHeader& header, LogPosition begin);
std::string EncodeFrameHeader(const FrameHeader& header, uint64_t salt);
// nullopt unless magic, salt and digest are right. `bytes` has kFrameHeaderBytes.
std::optional<FrameHeader> DecodeFrameHeader(absl::string_view bytes, uint64_t salt);

struct LogFileHeader {
  int64_t number = 0;
  // The preallocated size. A file is never shorter until a later file continues the log.
  int64_t bytes = 0;
};

std::string EncodeLogFileHeader(const LogFileHeader& header, uint64_t salt);
// FAILED_PRECONDITION: the magic is that of another format. DATA_LOSS: the header is damaged. Both
// name `path`.
absl::StatusOr<LogFileHeader> DecodeLogFileHeader(absl::string_view bytes, uint64_t salt,
                                                  absl::string_view path);

// "0000000001.log", and back (nullopt for other names). Numbers count from 1.
std::string LogFileName(int64_t number);
std::optional<int64_t> LogFileNumber(absl::string_view name);

}  // namespace longhaul
