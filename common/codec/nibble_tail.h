// Codes of a segment's short last block: in a payload they are in natural order and no longer than
// needed, in kernels they are the words of a whole block. Of codecs with half a byte an element.
// Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul {

inline constexpr int64_t kHalfBytesPerBlock = 64;

// Word order, padded to a block -> ceil(elements / 2) bytes in natural order.
inline void PackTail(const uint8_t* block_codes, int64_t elements, uint8_t* out) {
  std::fill(out, out + (elements + 1) / 2, 0);
  for (int64_t i = 0; i < elements; ++i) {
    const int64_t word = i % 16, row = i / 16;
    const uint8_t code = block_codes[word * 4 + row / 2] >> (row % 2 * 4) & 15;
    out[i / 2] |= code << (i % 2 * 4);
  }
}

// The inverse; codes of missing elements are 0. `block_codes` has kHalfBytesPerBlock bytes.
inline void UnpackTail(const uint8_t* in, int64_t elements, uint8_t* block_codes) {
  std::fill(block_codes, block_codes + kHalfBytesPerBlock, 0);
  for (int64_t i = 0; i < elements; ++i) {
    const int64_t word = i % 16, row = i / 16;
    const uint8_t code = in[i / 2] >> (i % 2 * 4) & 15;
    block_codes[word * 4 + row / 2] |= code << (row % 2 * 4);
  }
}

}  // namespace longhaul
