// Permutations without a table: the place of element `i` of `n` is computed from a key, so any
// element of a shuffled order is known without state. A Feistel network over the next power of four
// is applied until the result is below n (cycle walking; Black and Rogaway, "Ciphers with arbitrary
// finite domains", 2002): on average at most four times.
#pragma once

#include <cstdint>

#include "common/base/check.h"
#include "common/base/random.h"

namespace longhaul {

// A bijection of [0, n) for each key. 0 <= i < n.
inline int64_t Permute(uint64_t key, int64_t n, int64_t i) {
  LH_CHECK(0 <= i && i < n, "an element outside the permutation");
  int half = 1;  // Bits of each half: 4^half >= n.
  while (half < 31 && (int64_t{1} << (2 * half)) < n) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  constexpr int kRounds = 6;
  auto at = static_cast<uint64_t>(i);
  do {
    uint64_t left = at >> half, right = at & mask;
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t mixed = left ^ (Philox(key, round, right)[0] & mask);
      left = right;
      right = mixed;
    }
    at = left << half | right;
  } while (at >= static_cast<uint64_t>(n));
  return static_cast<int64_t>(at);
}

}  // namespace longhaul
