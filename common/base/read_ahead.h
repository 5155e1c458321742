// Brings memory nearer ahead of a pass over it. What a processor reads ahead by itself follows one
// page of 4 KiB at a time; where memory is far away, as on large servers and in virtual machines,
// one core gets two thirds of what it could that way, or less. ReadAhead keeps lines of the next eight pages in
// flight. `tests/benchmark/run.sh codec` measures both (rows read_in_order, read).
#pragma once

#include <cstdint>

namespace longhaul {

inline constexpr int64_t kReadAheadBytes = 512;
inline constexpr int64_t kReadAheadSpans = 8;

// The line that is asked for of the `k`-th span of 4 KiB ahead, in bytes from the address of the
// `number`-th kReadAheadBytes of a pass: of a span's eight parts the first when it is farthest, the
// last when it is next; of a part's eight lines one for each number.
constexpr int64_t ReadAheadLine(int64_t number, int64_t k) {
  constexpr int64_t kSpan = kReadAheadSpans * kReadAheadBytes, kLine = 64;
  const int64_t place = number % kReadAheadSpans;
  return (k + 1) * kSpan - place * kReadAheadBytes +  // The span.
         (kReadAheadSpans - 1 - k) * kReadAheadBytes + place * kLine;
}

// To be called for each kReadAheadBytes of a pass, in their order, with their address and their
// number in the pass. When a span is reached, all its lines have been asked for. Beyond the end of
// an array it is harmless. Costs eight instructions.
//
// Always inlined: GCC takes a function that does nothing but prefetch for one without effect, and
// drops its calls.
[[gnu::always_inline]] inline void ReadAhead(const void* at, int64_t number) {
#pragma GCC unroll 8
  for (int64_t k = 0; k < kReadAheadSpans; ++k) {
    const uintptr_t line = reinterpret_cast<uintptr_t>(at) + ReadAheadLine(number, k);
    __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2);  // To the second level of cache.
  }
}

}  // namespace longhaul
