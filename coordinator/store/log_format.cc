#include "coordinator/store/log_format.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "coordinator/store/envelope.h"
#include "coordinator/store/wire.h"

namespace longhaul {
namespace {

constexpr absl::string_view kFrameMagic = "LHFRAME2";
constexpr absl::string_view kLogFileMagic = "LHLOGFI2";
constexpr int64_t kFrameDigestOffset = kFrameHeaderBytes - 16;
constexpr int64_t kLogFileDigestOffset = 32;
// Ten digits.
constexpr int64_t kLogFileNumberMax = 9'999'999'999;

}  // namespace

LogFrame FrameAt(const FrameHeader& header, LogPosition begin) {
  return {header.type,
          header.sequence,
          {begin.file, begin.offset + kFrameHeaderBytes},
          static_cast<int64_t>(header.body_bytes),
          header.body_digest};
}

std::string EncodeFrameHeader(const FrameHeader& header, uint64_t salt) {
  WireWriter out;
  out.Bytes(kFrameMagic);
  out.U32(static_cast<uint32_t>(header.type));
  out.U32(0);
  out.U64(salt);
  out.U64(header.sequence);
  out.U64(header.body_bytes);
  out.U64(header.durable_upto);
  out.Digest(header.body_digest);
  LH_CHECK(out.size() == kFrameDigestOffset, "frame header layout");
  out.Digest(DigestOf(out.bytes(), salt));
  return out.Take();
}

std::optional<FrameHeader> DecodeFrameHeader(absl::string_view bytes, uint64_t salt) {
  WireReader in(bytes);
  const absl::string_view magic = in.Bytes(kFrameMagic.size());
  FrameHeader header;
  header.type = static_cast<FrameType>(in.U32());
  in.U32();
  const uint64_t found_salt = in.U64();
  header.sequence = in.U64();
  header.body_bytes = in.U64();
  header.durable_upto = in.U64();
  header.body_digest = in.Digest();
  const Digest128 digest = in.Digest();
  if (!in.ok() || magic != kFrameMagic || found_salt != salt) return std::nullopt;
  if (digest != DigestOf(bytes.substr(0, kFrameDigestOffset), salt)) return std::nullopt;
  return header;
}

std::string EncodeLogFileHeader(const LogFileHeader& header, uint64_t salt) {
  WireWriter out;
  out.Bytes(kLogFileMagic);
  out.U64(salt);
  out.U64(header.number);
  out.U64(header.bytes);
  LH_CHECK(out.size() == kLogFileDigestOffset, "log file header layout");
  out.Digest(DigestOf(out.bytes(), salt));
  std::string bytes = out.Take();
  bytes.resize(kLogFileHeaderBytes, '\0');
  return bytes;
}

absl::StatusOr<LogFileHeader> DecodeLogFileHeader(absl::string_view bytes, uint64_t salt,
                                                  absl::string_view path) {
  WireReader in(bytes);
  const absl::string_view magic = in.Bytes(kLogFileMagic.size());
  const uint64_t found_salt = in.U64();
  LogFileHeader header;
  header.number = in.U64();
  header.bytes = in.U64();
  const Digest128 digest = in.Digest();
  if (IsOtherFormat(kLogFileMagic, magic)) return OtherFormat(kLogFileMagic, magic, path);
  if (in.ok() && magic == kLogFileMagic && found_salt == salt &&
      digest == DigestOf(bytes.substr(0, kLogFileDigestOffset), salt)) {
    return header;
  }
  return absl::DataLossError(absl::StrCat(path, " is damaged at byte 0: its header is not valid"));
}

std::string LogFileName(int64_t number) { return absl::StrFormat("%010d.log", number); }

std::optional<int64_t> LogFileNumber(absl::string_view name) {
  absl::string_view digits = name;
  int64_t number = 0;
  if (!absl::ConsumeSuffix(&digits, ".log") || !absl::SimpleAtoi(digits, &number))
    return std::nullopt;
  // Each number has exactly one name. Files of any other name do not belong to the log.
  if (number < 1 || number > kLogFileNumberMax || name != LogFileName(number)) return std::nullopt;
  return number;
}

}  // namespace longhaul
