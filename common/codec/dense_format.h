// What makes a dense codec (one that codes every element) what it is, as data: its planes, what
// bytes from outside must not hold, and how the segment's scales are written down.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/codec/kernels/dense_kernels.h"

namespace longhaul {

// The planes of a payload, cut where its whole blocks end. T: uint8_t or const uint8_t.
template <typename T>
struct DensePlanes {
  absl::Span<T> whole_codes, tail_codes, scales;
};

enum class BlockOrder { kNatural, kBytes, kHalfBytes };  // Of the codes; tail_order.h.

struct DenseFormat {
  int code_bits = 0;    // Of an element.
  int scale_bytes = 0;  // Of a block.
  BlockOrder order = BlockOrder::kNatural;
  // Whether scales are written relative to the segment's largest (e3m0).
  bool relative_scales = false;
  int32_t base_exponent_min = 0, base_exponent_max = 0;
  // OK when every code and scale stands for a finite value and all padding is zero. `elements`: of
  // the segment.
  absl::Status (*validate)(const DensePlanes<const uint8_t>& planes, int64_t elements) = nullptr;
  // What no magnitude that they stand for exceeds.
  float (*bound)(const DensePlanes<const uint8_t>& planes, int32_t base_exponent) = nullptr;
  kernels::DenseKernels (*scalar)(const CodecOptions&) = nullptr;
  kernels::DenseKernels (*simd)(const CodecOptions&) = nullptr;

  int64_t code_bytes_per_block() const { return code_bits * 16; }
};

// Null for a kind that is not dense.
const DenseFormat* DenseFormatOf(CodecKind kind);

}  // namespace longhaul
