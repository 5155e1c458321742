// Even parts of things in order: sequences or nodes of a batch over ranks, and over micro-batches.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul {

// The things [first, end()).
struct Share {
  int64_t first = 0, count = 0;
  constexpr int64_t end() const { return first + count; }
};

// Part `index` of `parts` of `total` things. Parts are contiguous, in their order, and differ in
// size by at most one. If there are fewer things than parts, some get none.
constexpr Share ShareOf(int64_t total, int64_t index, int64_t parts) {
  const int64_t each = total / parts, rest = total % parts;
  return {index * each + std::min(index, rest), each + (index < rest ? 1 : 0)};
}

}  // namespace longhaul
