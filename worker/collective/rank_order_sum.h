// The sum that defines every reduction: ((s0 + s1) + s2) + ..., element by element.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "common/base/thread_team.h"

namespace longhaul {

// The sum of one block. Mostly `count` is the constant kBlock, so that the compiler makes vector
// code.
template <typename T>
inline void AddRankOrderBlock(absl::Span<const T* const> sources, int64_t begin, int64_t count,
                              T* output) {
  alignas(64) T sum[4096 / sizeof(T)];
  std::memcpy(sum, sources[0] + begin, count * sizeof(T));
  for (const T* source : sources.subspan(1)) {
    const T* addend = source + begin;
    for (int64_t i = 0; i < count; ++i) sum[i] += addend[i];
  }
  std::memcpy(output + begin, sum, count * sizeof(T));
}

// output[i] = sum of sources[k][i] in the order of k. `output` may be one of the sources; otherwise
// they must not overlap. At least one source. Works in blocks that stay in the first-level cache,
// so that each source is read once.
template <typename T>
void RankOrderSum(absl::Span<const T* const> sources, T* output, int64_t count) {
  constexpr int64_t kBlock = 4096 / sizeof(T);
  int64_t begin = 0;
  for (; begin + kBlock <= count; begin += kBlock)
    AddRankOrderBlock<T>(sources, begin, kBlock, output);
  if (begin < count) AddRankOrderBlock<T>(sources, begin, count - begin, output);
}

// The same bits, on the threads of a team. Null: on the calling thread.
template <typename T>
void RankOrderSum(absl::Span<const T* const> sources, T* output, int64_t count, ThreadTeam* team) {
  ForParts(team, count, kLineGrain, [&](int64_t first, int64_t end) {
    std::vector<const T*> from(sources.begin(), sources.end());
    for (const T*& source : from) source += first;
    RankOrderSum<T>(from, output + first, end - first);
  });
}

}  // namespace longhaul
