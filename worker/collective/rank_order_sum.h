// The sum that defines every reduction: ((s0 + s1) + s2) + ..., element by element.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"

namespace longhaul {

// output[i] = sum of sources[k][i] in the order of k. `output` may be one of the sources, else they
// must not overlap. At least one source. Works in blocks that stay in the first-level cache, so
// that each source is read once.
template <typename T>
void RankOrderSum(absl::Span<const T* const> sources, T* output, int64_t count) {
  constexpr int64_t kBlock = 4096 / sizeof(T);
  T sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    std::memcpy(sum, sources[0] + begin, length * sizeof(T));
    for (const T* source : sources.subspan(1)) {
      const T* addend = source + begin;
      for (int64_t i = 0; i < length; ++i) sum[i] += addend[i];
    }
    std::memcpy(output + begin, sum, length * sizeof(T));
  }
}

}  // namespace longhaul
