// Brings memory nearer ahead of a pass over it. What a processor reads ahead by itself follows one
// page of 4 KiB at a time; where memory is far away, as on large servers and in virtual machines,
// one core gets half of what it could that way. ReadAhead keeps lines of the next eight pages in
// flight. `tests/benchmark/run.sh codec` measures both (rows read_in_order, read).
#pragma once

#include <cstdint>

namespace longhaul {

inline constexpr int64_t kReadAheadBytes = 512;

// To be called for each kReadAheadBytes of a pass, in their order, with their address and their
// number in the pass. Of each of the next eight spans of 4 KiB it asks for one line; when a span is
// reached, all its lines have been asked for. Beyond the end of an array it is harmless. Costs
// eight instructions.
//
// Always inlined: GCC takes a function that does nothing but prefetch for one without effect, and
// drops its calls.
[[gnu::always_inline]] inline void ReadAhead(const void* at, int64_t number) {
  constexpr uintptr_t kSpan = 4096, kSpans = kSpan / kReadAheadBytes, kLine = 64;
  // The line of this number within an eighth of a span.
  const uintptr_t place = static_cast<uintptr_t>(number) % kSpans;
  const uintptr_t base = reinterpret_cast<uintptr_t>(at) - place * (kReadAheadBytes - kLine);
#pragma GCC unroll 8
  for (uintptr_t k = 0; k < kSpans; ++k) {
    const uintptr_t eighth = kSpans - 1 - k;  // The first one when the span is farthest.
    __builtin_prefetch(
        reinterpret_cast<const void*>(base + (k + 1) * kSpan + eighth * kReadAheadBytes), 0, 2);
  }
}

}  // namespace longhaul
