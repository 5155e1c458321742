// Kernels of topk2 on a chunk: the work that costs more than the 64 kept elements do. There are two
// kinds with equal results. Pure functions.
#pragma once

#include <cstdint>

#include "common/codec/codec.h"
#include "common/codec/kernels/block.h"
#include "common/codec/topk2_levels.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::kernels {

// The largest magnitudes, as bits, of the interleaved parts of a chunk. Part i has the elements i +
// 128 k.
struct alignas(64) PartMaxima {
  int32_t bits[kBlockElements] = {};
};

struct CodedChunk {
  topk2::Levels levels;
  uint8_t entries[topk2::kKeptMax];
  // kept - decoded.
  float lost[topk2::kKeptMax];
};

struct Topk2Kernels {
  // u[i] = (values - minus) + decay * error for some whole blocks of a chunk. `minus` and `error`
  // may be null, and u may be one of the inputs. Raises `maxima`, and returns the largest magnitude
  // of these blocks.
  uint32_t (*load)(const float* values, const float* minus, const float* error, float decay,
                   int64_t blocks, float* u, PartMaxima& maxima);

  // Finds the `keep` largest magnitudes of a chunk of whole finite blocks, of equal ones the first.
  // Writes their positions, ascending. keep <= 2 * blocks. `next` is any address that will be
  // loaded next.
  void (*select)(const float* u, int64_t blocks, int64_t keep, const PartMaxima& maxima,
                 const float* next, uint16_t* positions);

  // Codes `count` kept elements (topk2_levels.h). `kept` and `positions` are padded with arbitrary
  // values to whole lanes, and so is the output.
  void (*code)(const float* kept, const uint16_t* positions, int count, uint32_t magnitude_max,
               CodedChunk& coded);

  // Sum of squares of a block, in the order of block.h.
  double (*energy)(const float* block);
};

Topk2Kernels Topk2Scalar();
Topk2Kernels Topk2Simd();

}  // namespace longhaul::kernels
