// Kernels of the codecs that code every element (all but topk2). They work on whole blocks; the
// caller pads a short last block with zeros. There are two kinds with equal bits. Pure functions;
// bytes need no alignment.
#pragma once

#include <cstdint>

#include "common/codec/codec.h"
#include "common/codec/kernels/block.h"

namespace longhaul::kernels {

// Blocks of a segment to be encoded: u = (values - minus) + decay * error.
struct EncodeBlocks {
  const float* values = nullptr;
  // Null if there is none.
  const float* minus = nullptr;
  // Null if there is none.
  const float* error = nullptr;
  float decay = 1;
  // Receives u - decoded(u). Null if not wanted. May be one of the inputs.
  float* lost = nullptr;
  uint8_t* codes = nullptr;
  int64_t blocks = 0;
  // The number of the first block in the segment. It decides which blocks are measured.
  int64_t first_block = 0;
  // Elements of the last block. The others are zero.
  int last_elements = 128;
  // The segment's.
  NoiseKey noise;
  // One for each block of the segment; points to that of its first block.
  BlockResult* results = nullptr;
  // The energy of a measured block b goes to energies[b / kSampleBlocks].
  BlockEnergy* energies = nullptr;
};

// Coded blocks. `scales` is the scale plane from their first block on.
struct CodedRun {
  const uint8_t* codes = nullptr;
  const uint8_t* scales = nullptr;
  int64_t blocks = 0;
  int32_t base_exponent = 0;
};

struct DenseKernels {
  // The caller makes scale bytes, and everything that depends on the segment's largest scale. A
  // block with NaN or Inf gets arbitrary codes.
  void (*encode)(const EncodeBlocks& run);
  void (*decode)(const CodedRun& run, float* out);
  // acc += weight * decoded.
  void (*accumulate)(const CodedRun& run, float weight, float* acc);
};

// The encoder follows the options, which must fit the codec (MakeCodec checks them).
DenseKernels Fp32Scalar(const CodecOptions& options);
DenseKernels Fp32Simd(const CodecOptions& options);
DenseKernels Bf16Scalar(const CodecOptions& options);
DenseKernels Bf16Simd(const CodecOptions& options);
DenseKernels E3m0Scalar(const CodecOptions& options);
DenseKernels E3m0Simd(const CodecOptions& options);
DenseKernels Int8Scalar(const CodecOptions& options);
DenseKernels Int8Simd(const CodecOptions& options);
DenseKernels Int6Scalar(const CodecOptions& options);
DenseKernels Int6Simd(const CodecOptions& options);
DenseKernels Int4Scalar(const CodecOptions& options);
DenseKernels Int4Simd(const CodecOptions& options);
DenseKernels Sign1Scalar(const CodecOptions& options);
DenseKernels Sign1Simd(const CodecOptions& options);

}  // namespace longhaul::kernels
