// What the CUDA kernels are told, and what they tell: one entry for each segment, in device memory.
// Plain values, for sources with and without CUDA.
#pragma once

#include <cstdint>

namespace longhaul::cuda {

// A segment to be encoded: u = (values - minus) + decay * error. The pointers are device memory, of
// the segment's first element; minus, error and lost may be null, lost may be one of the inputs.
struct EncodeJob {
  const float *values, *minus, *error;
  float* lost;
  uint8_t* out;  // The payload; needs no alignment, but is written faster when aligned to 4.
  uint64_t noise_key;
  int64_t noise_first_block;
  int32_t elements;
};

struct EncodeReport {
  int32_t base_exponent;
  int32_t first_bad;  // The first u that is NaN or Inf, or -1. Then all else is unspecified.
  double error_energy, signal_energy;
};

// `count` elements of a coded segment, from a block on.
struct DecodeJob {
  const uint8_t* payload;
  float* out;
  int32_t elements;  // Of the segment.
  int32_t base_exponent;
  int32_t first_block, count;
};

// What one of several senders adds to a sum: a coded segment, or floats. The other one is null.
struct ReduceSource {
  const uint8_t* payload;
  const float* values;
};

// Elements that several senders add to, summed in their order, from zero; the sum is kept, or coded
// as a segment (u = sum + decay * error), or both. All pointers are device memory.
struct ReduceJob {
  const ReduceSource* sources;
  int32_t source_count;
  int32_t elements;
  float* sum;  // May be null, or the floats of a source.
  // As in EncodeJob. `out` null: not coded.
  const float* error;
  float* lost;
  uint8_t* out;
};

}  // namespace longhaul::cuda
