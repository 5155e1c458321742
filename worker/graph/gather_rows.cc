#include "worker/graph/gather_rows.h"

#include <algorithm>
#include <cstring>

namespace longhaul {
namespace {

constexpr int64_t kLineBytes = 64;
// What is asked for ahead: more would wait for the processor's buffers, less leaves them empty.
constexpr int64_t kBytesAhead = 8192;
constexpr int64_t kRowsAheadMin = 12, kRowsAheadMax = 24;
// A thread's part of the rows has at least so many bytes.
constexpr int64_t kPartBytes = 1 << 16;

template <int kBytes>
inline void CopyUnit(const uint8_t* from, uint8_t* to) {
  uint8_t unit[kBytes];
  std::memcpy(unit, from, kBytes);
  std::memcpy(to, unit, kBytes);
}

// A call of memcpy costs about as much as 100 bytes take. The last unit overlaps the one before it.
inline void CopyRow(const uint8_t* from, uint8_t* to, int64_t bytes) {
  if (bytes < 16) {
    for (; bytes >= 4; bytes -= 4, from += 4, to += 4) CopyUnit<4>(from, to);
    for (; bytes > 0; --bytes) *to++ = *from++;
    return;
  }
  int64_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    CopyUnit<16>(from + at, to + at);
    CopyUnit<16>(from + at + 16, to + at + 16);
    CopyUnit<16>(from + at + 32, to + at + 32);
    CopyUnit<16>(from + at + 48, to + at + 48);
  }
  for (; at + 16 <= bytes; at += 16) CopyUnit<16>(from + at, to + at);
  if (at < bytes) CopyUnit<16>(from + bytes - 16, to + bytes - 16);
}

inline void AskFor(const uint8_t* row, int64_t bytes) {
  const uint8_t* const end = row + bytes;
  // To the second cache: it has room for more requests than the first.
  for (const uint8_t* at = row; at < end; at += kLineBytes) __builtin_prefetch(at, 0, 2);
  // Its last byte may be in one more line.
  __builtin_prefetch(end - 1, 0, 2);
}

void GatherPart(const uint8_t* table, int64_t row_bytes, absl::Span<const int64_t> ids,
                uint8_t* out) {
  const auto count = static_cast<int64_t>(ids.size());
  const int64_t ahead =
      std::min(count, std::clamp(kBytesAhead / row_bytes, kRowsAheadMin, kRowsAheadMax));
  for (int64_t i = 0; i < ahead; ++i) AskFor(table + ids[i] * row_bytes, row_bytes);
  int64_t i = 0;
  for (; i + ahead < count; ++i) {
    AskFor(table + ids[i + ahead] * row_bytes, row_bytes);
    CopyRow(table + ids[i] * row_bytes, out + i * row_bytes, row_bytes);
  }
  for (; i < count; ++i) CopyRow(table + ids[i] * row_bytes, out + i * row_bytes, row_bytes);
}

}  // namespace

void GatherRows(const uint8_t* table, int64_t row_bytes, absl::Span<const int64_t> ids,
                uint8_t* out, ThreadTeam* team) {
  if (row_bytes == 0) return;
  const auto count = static_cast<int64_t>(ids.size());
  if (team == nullptr || count * row_bytes < 2 * kPartBytes)
    return GatherPart(table, row_bytes, ids, out);
  // The team counts elements; a thread should have kPartBytes of them at least.
  constexpr int64_t kElementsOfAPart = 32768;
  const int64_t of_a_row = std::max<int64_t>(row_bytes * kElementsOfAPart / kPartBytes, 1);
  team->ForParts(count * of_a_row, of_a_row, [&](int64_t first, int64_t end) {
    const int64_t begin = first / of_a_row;
    GatherPart(table, row_bytes, ids.subspan(begin, end / of_a_row - begin),
               out + begin * row_bytes);
  });
}

}  // namespace longhaul
