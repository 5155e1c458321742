#include "worker/kernels/gather_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace longhaul {
namespace {

constexpr int64_t kLineBytes = 64;
// Rows are asked for in blocks, while the block before is copied: requests that nothing is between
// keep the memory busier than one row's at a time. A block fits the second cache several times.
constexpr int64_t kBlockBytes = 1 << 16;
constexpr int64_t kBlockRowsMin = 16, kBlockRowsMax = 128;
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

// Rows of 16 kUnits to 16 kUnits + 15 bytes: without a loop, whose end would be guessed wrong.
template <int kUnits>
struct NarrowCopy {
  void operator()(const uint8_t* from, uint8_t* to, int64_t bytes) const {
    [&]<int... kUnit>(std::integer_sequence<int, kUnit...>) {
      (CopyUnit<16>(from + 16 * kUnit, to + 16 * kUnit), ...);
    }
    (std::make_integer_sequence<int, kUnits>());
    CopyUnit<16>(from + bytes - 16, to + bytes - 16);
  }
};

inline void AskFor(const uint8_t* row, int64_t bytes) {
  const uint8_t* const end = row + bytes;
  // To the second cache: it has room for more requests than the first.
  for (const uint8_t* at = row; at < end; at += kLineBytes) __builtin_prefetch(at, 0, 1);
  // Its last byte may be in one more line.
  __builtin_prefetch(end - 1, 0, 1);
}

template <typename Copy>
void GatherPartBy(const uint8_t* table, int64_t row_bytes, absl::Span<const int64_t> ids,
                  uint8_t* out, const Copy& copy) {
  const auto count = static_cast<int64_t>(ids.size());
  const int64_t block = std::clamp(kBlockBytes / row_bytes, kBlockRowsMin, kBlockRowsMax);
  int64_t asked = 0;
  const uint8_t* asked_out = out;
  for (int64_t first = 0; first < count; first += block) {
    for (; asked < std::min(first + 2 * block, count); ++asked) {
      AskFor(table + ids[asked] * row_bytes, row_bytes);
      // Also what is written: a store waits for its line, too.
      for (; asked_out < out + asked * row_bytes; asked_out += kLineBytes)
        __builtin_prefetch(asked_out, 1, 1);
    }
    for (int64_t i = first; i < std::min(first + block, count); ++i)
      copy(table + ids[i] * row_bytes, out + i * row_bytes, row_bytes);
  }
}

void GatherPart(const uint8_t* table, int64_t row_bytes, absl::Span<const int64_t> ids,
                uint8_t* out) {
  const auto gather = [&](const auto& copy) { GatherPartBy(table, row_bytes, ids, out, copy); };
  switch (row_bytes / 16) {
    case 1:
      return gather(NarrowCopy<1>());
    case 2:
      return gather(NarrowCopy<2>());
    case 3:
      return gather(NarrowCopy<3>());
    case 4:
      return gather(NarrowCopy<4>());
    case 5:
      return gather(NarrowCopy<5>());
    case 6:
      return gather(NarrowCopy<6>());
    case 7:
      return gather(NarrowCopy<7>());
    default:
      return gather(CopyRow);
  }
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
