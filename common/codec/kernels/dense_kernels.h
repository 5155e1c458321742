// Kernels of the codecs that code every element (all but topk2), on whole blocks; a caller pads a
// short last block with zeros. Two kinds with equal bits. Pure functions; bytes need no alignment.
#pragma once

#include <cstdint>

#include "common/codec/codec.h"
#include "common/codec/kernels/block.h"

namespace longhaul::kernels {

// Some blocks of a segment to be encoded: u = (values - minus) + decay * error.
struct EncodeBlocks {
  const float* values = nullptr;
  const float* minus = nullptr;  // Null: none.
  const float* error = nullptr;  // Null: none.
  float decay = 1;
  float* lost = nullptr;  // u - decoded(u). Null: not wanted. May be one of the inputs.
  uint8_t* codes = nullptr;
  int64_t blocks = 0;
  int64_t first_block = 0;          // In the segment: decides which blocks are measured.
  int last_elements = 128;          // Of the last block; what it lacks is zero.
  NoiseKey noise;                   // Of the segment.
  BlockResult* results = nullptr;   // Of the segment's first block.
  BlockEnergy* energies = nullptr;  // Of block b, if measured: energies[b / kSampleBlocks].
};

// Some coded blocks. `scales`: the scale plane from the first of them on.
struct CodedRun {
  const uint8_t* codes = nullptr;
  const uint8_t* scales = nullptr;
  int64_t blocks = 0;
  int32_t base_exponent = 0;
};

struct DenseKernels {
  // Scale bytes, and what depends on the largest scale of the segment, are left to the caller. A
  // block with NaN or Inf gets some codes.
  void (*encode)(const EncodeBlocks& run);
  void (*decode)(const CodedRun& run, float* out);
  // acc += weight * decoded.
  void (*accumulate)(const CodedRun& run, float weight, float* acc);
};

// The encoder follows the options, which must fit the codec (MakeCodec checks).
DenseKernels Fp32Scalar(const CodecOptions& options);
DenseKernels Fp32Simd(const CodecOptions& options);
DenseKernels Bf16Scalar(const CodecOptions& options);
DenseKernels Bf16Simd(const CodecOptions& options);
DenseKernels E3m0Scalar(const CodecOptions& options);
DenseKernels E3m0Simd(const CodecOptions& options);
DenseKernels Int8Scalar(const CodecOptions& options);
DenseKernels Int8Simd(const CodecOptions& options);
DenseKernels Int4Scalar(const CodecOptions& options);
DenseKernels Int4Simd(const CodecOptions& options);
DenseKernels Sign1Scalar(const CodecOptions& options);
DenseKernels Sign1Simd(const CodecOptions& options);

}  // namespace longhaul::kernels
