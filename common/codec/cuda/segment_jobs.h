// Arguments and results of the CUDA kernels: one entry for each segment, in device memory. Plain
// values, for sources with and without CUDA.
#pragma once

#include <cstdint>

namespace longhaul::cuda {

// A segment to be encoded: u = (values - minus) + decay * error. The pointers are device memory and
// point to the segment's first element. minus, error and lost may be null; lost may be one of the
// inputs.
struct EncodeJob {
  const float *values, *minus, *error;
  float* lost;
  // The payload. It needs no alignment, but is written faster if it is aligned to 4.
  uint8_t* out;
  uint64_t noise_key;
  int64_t noise_first_block;
  int32_t elements;
};

struct EncodeReport {
  int32_t base_exponent;
  // The index of the first u that is NaN or Inf, or -1. If there is one, everything else is
  // unspecified.
  int32_t first_bad;
  double error_energy, signal_energy;
};

// `count` elements of a coded segment, beginning at a block.
struct DecodeJob {
  const uint8_t* payload;
  float* out;
  // All elements of the segment.
  int32_t elements;
  int32_t base_exponent;
  int32_t first_block, count;
};

// What one of several senders adds to a sum: a coded segment, or floats. The other one is null.
struct ReduceSource {
  const uint8_t* payload;
  const float* values;
};

// Elements to which several senders add. They are summed in the order of the senders, from zero.
// The sum is kept, or coded as a segment (u = sum + decay * error), or both. All pointers are
// device memory.
struct ReduceJob {
  const ReduceSource* sources;
  int32_t source_count;
  int32_t elements;
  // May be null, or the floats of a source.
  float* sum;
  // As in EncodeJob. If `out` is null nothing is coded.
  const float* error;
  float* lost;
  uint8_t* out;
};

}  // namespace longhaul::cuda
