// The order of codes. In whole blocks and in kernels codes of 4 and of 8 bits lie in words of 32
// bits, so that packing needs shifts and ors only: row r = i / 16 of element i, word i % 16 (8
// bits: + 16 for rows 4 to 7), bits from the lowest row up. The codes of a segment's short last
// block are in natural order and no longer than needed, the rest of the last byte zero. Pure
// functions.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul {

inline constexpr int64_t kHalfBytesPerBlock = 64;

// Byte of element i in a block of 8-bit codes.
constexpr int64_t ByteInBlock(int64_t i) { return i / 64 * 64 + i % 16 * 4 + i / 16 % 4; }

// Byte of element i in a block of 4-bit codes, and its place there.
constexpr int64_t HalfByteInBlock(int64_t i) { return i % 16 * 4 + i / 32; }
constexpr int HalfByteShift(int64_t i) { return static_cast<int>(i / 16 % 2 * 4); }

// Block order, padded to a block -> natural order.
inline void PackHalfByteTail(const uint8_t* block, int64_t elements, uint8_t* out) {
  std::fill(out, out + (elements + 1) / 2, 0);
  for (int64_t i = 0; i < elements; ++i)
    out[i / 2] |= (block[HalfByteInBlock(i)] >> HalfByteShift(i) & 15) << (i % 2 * 4);
}
inline void PackByteTail(const uint8_t* block, int64_t elements, uint8_t* out) {
  for (int64_t i = 0; i < elements; ++i) out[i] = block[ByteInBlock(i)];
}

// The inverse; codes of missing elements are 0. `block` has the codes of a whole block.
inline void UnpackHalfByteTail(const uint8_t* in, int64_t elements, uint8_t* block) {
  std::fill(block, block + kHalfBytesPerBlock, 0);
  for (int64_t i = 0; i < elements; ++i)
    block[HalfByteInBlock(i)] |= (in[i / 2] >> (i % 2 * 4) & 15) << HalfByteShift(i);
}
inline void UnpackByteTail(const uint8_t* in, int64_t elements, uint8_t* block) {
  std::fill(block, block + 128, 0);
  for (int64_t i = 0; i < elements; ++i) block[ByteInBlock(i)] = in[i];
}

}  // namespace longhaul
