// Kernels of topk2 on a chunk: what costs more than the 64 elements that are kept. Two kinds with
// equal results. Pure functions.
#pragma once

#include <cstdint>

#include "common/codec/codec.h"
#include "common/codec/kernels/block.h"

namespace longhaul::kernels {

struct Topk2Kernels {
  // u[i] = (values - minus) + decay * error for a chunk of whole blocks; `minus` and `error` may be
  // null, u may be one of the inputs. Returns the largest magnitude, as bits.
  uint32_t (*load)(const float* values, const float* minus, const float* error, float decay,
                   int64_t blocks, float* u);

  // The `keep` largest magnitudes of a chunk of whole finite blocks, of equal ones the first:
  // their positions, ascending. keep <= 2 * blocks.
  void (*select)(const float* u, int64_t blocks, int64_t keep, uint16_t* positions);

  // Sum of squares of a block, in the order of block.h.
  double (*energy)(const float* block);
};

Topk2Kernels Topk2Scalar();
Topk2Kernels Topk2Simd();

}  // namespace longhaul::kernels
