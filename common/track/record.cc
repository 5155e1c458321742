#include "common/track/record.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "isa-l/crc.h"

namespace longhaul {
namespace {

constexpr int64_t kHeadBytes = 8 + 4, kTailBytes = 4;
constexpr uint32_t kMaskDelta = 0xa282ead8;
constexpr int64_t kReadAtOnce = 1 << 20;

void AppendLittle(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t LittleAt(absl::string_view bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

// The payload of the first record of `bytes`. Returns false if the record is not complete, or is
// damaged.
bool ParseRecord(absl::string_view bytes, absl::string_view* payload) {
  if (bytes.size() < kHeadBytes) return false;
  const uint64_t length = LittleAt(bytes, 8);
  if (length > kRecordBytesMax || bytes.size() < kHeadBytes + length + kTailBytes) return false;
  if (LittleAt(bytes.substr(8), 4) != MaskedCrc32c(bytes.substr(0, 8))) return false;
  *payload = bytes.substr(kHeadBytes, length);
  return LittleAt(bytes.substr(kHeadBytes + length), 4) == MaskedCrc32c(*payload);
}

}  // namespace

uint32_t MaskedCrc32c(absl::string_view bytes) {
  // CRC32C inverts its value at the beginning and at the end, and the library's function does not.
  // The function does not write to its argument.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  const uint32_t crc = ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~uint32_t{0});
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

void AppendRecord(absl::string_view payload, std::string* out) {
  LH_CHECK(static_cast<int64_t>(payload.size()) <= kRecordBytesMax, "a record is too long");
  const size_t begin = out->size();
  AppendLittle(payload.size(), 8, out);
  AppendLittle(MaskedCrc32c(absl::string_view(*out).substr(begin, 8)), 4, out);
  out->append(payload.data(), payload.size());
  AppendLittle(MaskedCrc32c(payload), 4, out);
}

absl::StatusOr<int64_t> ReadRecords(const File& file,
                                    absl::FunctionRef<void(absl::string_view)> on_record) {
  // Holds more than the longest record, or the rest of the file.
  std::string window;
  int64_t window_at = 0, done = 0;
  for (bool end = false; !end;) {
    window.erase(0, done - window_at);
    window_at = done;
    const size_t kept = window.size();
    window.resize(kept + kReadAtOnce + kHeadBytes + kTailBytes);
    LH_ASSIGN_OR_RETURN(const int64_t read, file.ReadAt(window_at + static_cast<int64_t>(kept),
                                                        absl::MakeSpan(window).subspan(kept)));
    end = read == 0;
    window.resize(kept + read);
    const int64_t before = done;
    absl::string_view payload;
    while (ParseRecord(absl::string_view(window).substr(done - window_at), &payload)) {
      on_record(payload);
      done += kHeadBytes + static_cast<int64_t>(payload.size()) + kTailBytes;
    }
    // If there are more bytes than the longest record has, and none is complete, none will be.
    if (done == before &&
        static_cast<int64_t>(window.size()) >= kRecordBytesMax + kHeadBytes + kTailBytes)
      break;
  }
  return done;
}

}  // namespace longhaul
