// Moves the codes of one block to and from a payload. The half-warp that holds the block does it
// (tail_order.h says where codes lie). If `elements` is less than a block's, codes have the natural
// order of a short last block.
//
// CUDA code. A test compiles it for the CPU (tests/testing/cuda_emulation.h).
#pragma once

#include <cstdint>

#include "common/codec/cuda/half_warp-inl.h"
#include "common/codec/tail_order.h"

namespace longhaul::cuda {

using LaneCodes = uint32_t[kRows];

// A payload may begin at any byte, but nearly all begin at a word: `aligned`, which is the same for
// all threads.
__device__ inline bool IsAligned(const uint8_t* bytes) {
  return reinterpret_cast<uintptr_t>(bytes) % sizeof(uint32_t) == 0;
}

template <typename Word>
__device__ void Store(uint8_t* at, uint32_t value, bool aligned) {
  if (aligned) {
    *reinterpret_cast<Word*>(at) = static_cast<Word>(value);
    return;
  }
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Word)); ++i)
    at[i] = static_cast<uint8_t>(value >> (8 * i));
}

template <typename Word>
__device__ uint32_t Load(const uint8_t* at, bool aligned) {
  if (aligned) return *reinterpret_cast<const Word*>(at);
  uint32_t value = 0;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Word)); ++i) value |= uint32_t{at[i]} << (8 * i);
  return value;
}

// Has Put(self, codes, elements, block, aligned) and Get(self, elements, block, ...).
template <int kBits>
struct Packing;

// fp32, bf16: in the order of the elements, for whole and short blocks.
template <typename Word>
struct WordPacking {
  static __device__ void Put(const HalfWarp& self, const LaneCodes& codes, int elements,
                             uint8_t* block, bool aligned) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int i = self.lane + kLanes * row;
      if (i < elements) Store<Word>(block + i * sizeof(Word), codes[row], aligned);
    }
  }
  static __device__ void Get(const HalfWarp& self, int elements, const uint8_t* block, bool aligned,
                             LaneCodes& codes) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int i = self.lane + kLanes * row;
      codes[row] = i < elements ? Load<Word>(block + i * sizeof(Word), aligned) : 0;
    }
  }
};
template <>
struct Packing<32> : WordPacking<uint32_t> {};
template <>
struct Packing<16> : WordPacking<uint16_t> {};

template <>
struct Packing<8> {
  static __device__ void Put(const HalfWarp& self, const LaneCodes& codes, int elements,
                             uint8_t* block, bool aligned) {
    if (elements < kBlockElements)
      return WordPacking<uint8_t>::Put(self, codes, elements, block, true);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t word = 0;
#pragma unroll
      for (int row = 0; row < 4; ++row) word |= codes[half * 4 + row] << (8 * row);
      Store<uint32_t>(block + half * 64 + self.lane * 4, word, aligned);
    }
  }
  static __device__ void Get(const HalfWarp& self, int elements, const uint8_t* block, bool aligned,
                             LaneCodes& codes) {
    if (elements < kBlockElements)
      return WordPacking<uint8_t>::Get(self, elements, block, true, codes);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t word = Load<uint32_t>(block + half * 64 + self.lane * 4, aligned);
#pragma unroll
      for (int row = 0; row < 4; ++row) codes[half * 4 + row] = word >> (8 * row) & 255;
    }
  }
};

template <>
struct Packing<4> {
  static __device__ void Put(const HalfWarp& self, const LaneCodes& codes, int elements,
                             uint8_t* block, bool aligned) {
    if (elements < kBlockElements) return PutTail(self, codes, elements, block);
    uint32_t word = 0;
#pragma unroll
    for (int row = 0; row < kRows; ++row) word |= codes[row] << (4 * row);
    Store<uint32_t>(block + self.lane * 4, word, aligned);
  }
  static __device__ void Get(const HalfWarp& self, int elements, const uint8_t* block, bool aligned,
                             LaneCodes& codes) {
    const bool whole = elements == kBlockElements;
    const uint32_t word = whole ? Load<uint32_t>(block + self.lane * 4, aligned) : 0;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int i = self.lane + kLanes * row;
      if (whole) {
        codes[row] = word >> (4 * row) & 15;
      } else {
        codes[row] = i < elements ? block[i / 2] >> (i % 2 * 4) & 15 : 0;
      }
    }
  }

 private:
  // A byte has the codes of two neighbours. The even lane writes it.
  static __device__ void PutTail(const HalfWarp& self, const LaneCodes& codes, int elements,
                                 uint8_t* block) {
    for (int row = 0; row < kRows; ++row) {
      const int i = self.lane + kLanes * row;
      const uint32_t next = self.Neighbour(i < elements ? codes[row] : 0);
      if (i % 2 == 0 && i < elements) block[i / 2] = static_cast<uint8_t>(codes[row] | next << 4);
    }
  }
};

// A lane holds a word of low bits and a half word of high bits.
template <>
struct Packing<6> {
  static __device__ void Put(const HalfWarp& self, const LaneCodes& codes, int elements,
                             uint8_t* block, bool aligned) {
    if (elements < kBlockElements) return PutTail(self, codes, elements, block);
    uint32_t low = 0, high = 0;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      low |= (codes[row] & 15) << (4 * row);
      high |= codes[row] >> 4 << (2 * row);
    }
    Store<uint32_t>(block + self.lane * 4, low, aligned);
    Store<uint16_t>(block + kHalfBytesPerBlock + self.lane * 2, high, aligned);
  }
  static __device__ void Get(const HalfWarp& self, int elements, const uint8_t* block, bool aligned,
                             LaneCodes& codes) {
    if (elements < kBlockElements) {
      for (int row = 0; row < kRows; ++row) {
        const int i = self.lane + kLanes * row;
        codes[row] = i < elements ? SixBitTailCode(block, i) : 0;
      }
      return;
    }
    const uint32_t low = Load<uint32_t>(block + self.lane * 4, aligned);
    const uint32_t high = Load<uint16_t>(block + kHalfBytesPerBlock + self.lane * 2, aligned);
#pragma unroll
    for (int row = 0; row < kRows; ++row)
      codes[row] = (high >> (2 * row) & 3) << 4 | (low >> (4 * row) & 15);
  }

 private:
  // Four codes are three bytes. The first lane of four writes them.
  static __device__ void PutTail(const HalfWarp& self, const LaneCodes& codes, int elements,
                                 uint8_t* block) {
    for (int row = 0; row < kRows; ++row) {
      const int i = self.lane + kLanes * row;
      uint32_t bits = i < elements ? codes[row] : 0;
      bits |= self.Exchange(bits, 1) << 6;
      bits |= self.Exchange(bits, 2) << 12;
      if (self.lane % 4 != 0) continue;
      for (int byte = 0; byte < 3; ++byte) {
        if (i * 6 + byte * 8 < elements * 6)
          block[i / 4 * 3 + byte] = static_cast<uint8_t>(bits >> (8 * byte));
      }
    }
  }
};

// Also in natural order. A row is 16 bits, gathered by a vote and written by the lane of that
// number.
template <>
struct Packing<1> {
  static __device__ void Put(const HalfWarp& self, const LaneCodes& codes, int elements,
                             uint8_t* block, bool) {
    uint32_t own = 0;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const uint32_t bits = self.Ballot(self.lane + kLanes * row < elements && codes[row] != 0);
      if (self.lane == row) own = bits;
    }
    if (self.lane >= kRows) return;
#pragma unroll
    for (int byte = 0; byte < 2; ++byte) {
      const int at = 2 * self.lane + byte;
      if (at * 8 < elements) block[at] = static_cast<uint8_t>(own >> (8 * byte));
    }
  }
  static __device__ void Get(const HalfWarp& self, int elements, const uint8_t* block, bool,
                             LaneCodes& codes) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int i = self.lane + kLanes * row;
      codes[row] = i < elements ? block[i / 8] >> (i % 8) & 1 : 0;
    }
  }
};

}  // namespace longhaul::cuda
