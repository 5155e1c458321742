// Prefetches memory for a pass over it. A processor's own prefetcher follows one page of 4 KiB at a
// time. Where memory latency is high, as on large servers and in virtual machines, one core then
// gets only two thirds of the possible rate, or less. ReadAhead requests lines of the next eight
// pages early. `tests/benchmark/run.sh codec` measures both (rows read_in_order, read).
#pragma once

#include <cstdint>

namespace longhaul {

inline constexpr int64_t kReadAheadBytes = 512;
inline constexpr int64_t kReadAheadSpans = 8;

// Which line of the `k`-th span of 4 KiB ahead to request, in bytes from the address of the
// `number`-th kReadAheadBytes of a pass. A span has eight parts. When it is farthest away its first
// part is requested, and when it is next its last part. A part has eight lines, one for each
// number.
constexpr int64_t ReadAheadLine(int64_t number, int64_t k) {
  constexpr int64_t kSpan = kReadAheadSpans * kReadAheadBytes, kLine = 64;
  const int64_t place = number % kReadAheadSpans;
  // The distance of the span.
  return (k + 1) * kSpan - place * kReadAheadBytes + (kReadAheadSpans - 1 - k) * kReadAheadBytes +
         place * kLine;
}

// Call it for each kReadAheadBytes of a pass, in order, with their address and their number in the
// pass. When the pass reaches a span, all its lines have been requested. Calls beyond the end of an
// array are harmless. Costs eight instructions.
//
// Always inlined, since GCC considers a function that only prefetches to have no effect, and drops
// its calls.
[[gnu::always_inline]] inline void ReadAhead(const void* at, int64_t number) {
#pragma GCC unroll 8
  for (int64_t k = 0; k < kReadAheadSpans; ++k) {
    const uintptr_t line = reinterpret_cast<uintptr_t>(at) + ReadAheadLine(number, k);
    // Into the second level of cache.
    __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2);
  }
}

}  // namespace longhaul
