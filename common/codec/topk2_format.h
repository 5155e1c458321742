// The format topk2 (SparseLoCo, arXiv 2508.15706: top-k of chunks with 2-bit values). Of each chunk
// of 32 blocks (4096 elements) it keeps the 64 largest magnitudes, each as a position, a sign and
// one of two levels. All other elements are zero. The last chunk of a segment may be shorter: of b
// blocks (the last may be short) it keeps 2 b elements, or all if there are fewer.
//
// A chunk of k kept elements in g = 2 b groups of 64 elements:
//   2 + 2 bytes        the levels, low and high (scale_word.h)
//   ceil((k + g) / 8)  which group each is in: bit (group + j) is set for the j-th kept element
//                      (Elias-Fano; bit i is bit i % 8 of byte i / 8)
//   k bytes            in ascending position: place in the group | high level << 6 | sign << 7
// So a position takes 8 bits (12 bits plain, at least 7.36 in theory), and a chunk 84 bytes: 0.164
// bits for each element.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/checked_math.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::topk2 {

inline constexpr int64_t kChunkBlocks = 32;
inline constexpr int64_t kChunkElements = kChunkBlocks * kBlockElements;
inline constexpr int64_t kGroupElements = 64;
inline constexpr int64_t kKeptMax = 2 * kChunkBlocks;
inline constexpr int64_t kLevelBytes = 4;

// The shape of a chunk of 1 to kChunkElements elements.
struct ChunkShape {
  int64_t elements = 0;
  constexpr int64_t groups() const { return 2 * CeilDiv(elements, kBlockElements); }
  constexpr int64_t kept() const { return std::min(groups(), elements); }
  constexpr int64_t group_bytes() const { return CeilDiv(kept() + groups(), 8); }
  constexpr int64_t bytes() const { return kLevelBytes + group_bytes() + kept(); }
};

inline constexpr int64_t kChunkBytes = ChunkShape{kChunkElements}.bytes();

struct Entry {
  static constexpr uint8_t kHigh = 1 << 6, kNegative = 1 << 7, kPosition = kHigh - 1;
};

}  // namespace longhaul::topk2
