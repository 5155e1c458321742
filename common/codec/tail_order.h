// The order of codes. In whole blocks and in kernels, codes of 4 and of 8 bits lie in words of 32
// bits, so that packing needs only shifts and ors. Element i has row r = i / 16 and word i % 16
// (with 8 bits, + 16 for rows 4 to 7); the lowest row has the lowest bits. Codes of 6 bits have two
// planes: their low 4 bits as codes of 4 bits, then their high 2 bits in 16 words of 16 bits, in
// the same way. The codes of a segment's short last block are in natural order and no longer than
// needed; the rest of the last byte is zero. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul {

inline constexpr int64_t kHalfBytesPerBlock = 64;

// The byte of element i in a block of 8-bit codes.
constexpr int64_t ByteInBlock(int64_t i) { return i / 64 * 64 + i % 16 * 4 + i / 16 % 4; }

// The byte of element i in a block of 4-bit codes, and its place in it.
constexpr int64_t HalfByteInBlock(int64_t i) { return i % 16 * 4 + i / 32; }
constexpr int HalfByteShift(int64_t i) { return static_cast<int>(i / 16 % 2 * 4); }

// The byte of the high 2 bits of element i in a block of 6-bit codes, and their place in it.
constexpr int64_t HighBitsInBlock(int64_t i) { return kHalfBytesPerBlock + i % 16 * 2 + i / 64; }
constexpr int HighBitsShift(int64_t i) { return static_cast<int>(i / 16 % 4 * 2); }
inline constexpr int64_t kSixBitBytesPerBlock = 96;

// One 6-bit code of a block. Put requires that its place is zero.
constexpr uint32_t GetSixBits(const uint8_t* block, int64_t i) {
  const uint32_t low = block[HalfByteInBlock(i)] >> HalfByteShift(i) & 15;
  const uint32_t high = block[HighBitsInBlock(i)] >> HighBitsShift(i) & 3;
  return high << 4 | low;
}
constexpr void PutSixBits(uint8_t* block, int64_t i, uint32_t code) {
  block[HalfByteInBlock(i)] |= static_cast<uint8_t>((code & 15) << HalfByteShift(i));
  block[HighBitsInBlock(i)] |= static_cast<uint8_t>(code >> 4 << HighBitsShift(i));
}

// Byte `byte` of 6-bit codes in natural order. Element i has the bits from 6 i on, low bits first.
// `code(i)` returns the code of element i.
template <typename Code>
constexpr uint8_t SixBitTailByte(int64_t byte, int64_t elements, Code&& code) {
  const int64_t first = byte * 8 / 6;
  uint32_t bits = code(first) >> (byte * 8 - first * 6);
  for (int64_t i = first + 1; i < elements && i * 6 < (byte + 1) * 8; ++i)
    bits |= code(i) << (i * 6 - byte * 8);
  return static_cast<uint8_t>(bits);
}
constexpr uint32_t SixBitTailCode(const uint8_t* in, int64_t i) {
  const int64_t byte = i * 6 / 8, shift = i * 6 % 8;
  const uint32_t low = in[byte] >> shift;
  return (shift > 2 ? low | uint32_t{in[byte + 1]} << (8 - shift) : low) & 63;
}

// From block order, padded to a block, to natural order.
inline void PackHalfByteTail(const uint8_t* block, int64_t elements, uint8_t* out) {
  std::fill(out, out + (elements + 1) / 2, 0);
  for (int64_t i = 0; i < elements; ++i)
    out[i / 2] |= (block[HalfByteInBlock(i)] >> HalfByteShift(i) & 15) << (i % 2 * 4);
}
inline void PackByteTail(const uint8_t* block, int64_t elements, uint8_t* out) {
  for (int64_t i = 0; i < elements; ++i) out[i] = block[ByteInBlock(i)];
}

inline void PackSixBitTail(const uint8_t* block, int64_t elements, uint8_t* out) {
  for (int64_t byte = 0; byte < (elements * 6 + 7) / 8; ++byte) {
    out[byte] = SixBitTailByte(byte, elements, [block](int64_t i) { return GetSixBits(block, i); });
  }
}

// The inverse. Codes of missing elements become 0. `block` has the codes of a whole block.
inline void UnpackHalfByteTail(const uint8_t* in, int64_t elements, uint8_t* block) {
  std::fill(block, block + kHalfBytesPerBlock, 0);
  for (int64_t i = 0; i < elements; ++i)
    block[HalfByteInBlock(i)] |= (in[i / 2] >> (i % 2 * 4) & 15) << HalfByteShift(i);
}
inline void UnpackSixBitTail(const uint8_t* in, int64_t elements, uint8_t* block) {
  std::fill(block, block + kSixBitBytesPerBlock, 0);
  for (int64_t i = 0; i < elements; ++i) PutSixBits(block, i, SixBitTailCode(in, i));
}
inline void UnpackByteTail(const uint8_t* in, int64_t elements, uint8_t* block) {
  std::fill(block, block + 128, 0);
  for (int64_t i = 0; i < elements; ++i) block[ByteInBlock(i)] = in[i];
}

}  // namespace longhaul
