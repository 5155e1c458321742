// Describes a dense codec (one that codes every element) as data: its planes, how bytes from
// outside are checked, and how the segment's scales are written.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/codec/kernels/dense_kernels.h"

namespace longhaul {

// The planes of a payload, each cut after its whole blocks. T is uint8_t or const uint8_t.
template <typename T>
struct DensePlanes {
  absl::Span<T> whole_codes, tail_codes, scales;
};

// The order of codes in a block; see tail_order.h.
enum class BlockOrder { kNatural, kBytes, kHalfBytes, kSixBits };

struct DenseFormat {
  // Bits of an element.
  int code_bits = 0;
  // Bytes of a block's scale.
  int scale_bytes = 0;
  BlockOrder order = BlockOrder::kNatural;
  // Whether scales are written relative to the segment's largest (e3m0).
  bool relative_scales = false;
  int32_t base_exponent_min = 0, base_exponent_max = 0;
  // Returns OK if every code and scale stands for a finite value and all padding is zero.
  // `elements` are those of the segment.
  absl::Status (*validate)(const DensePlanes<const uint8_t>& planes, int64_t elements) = nullptr;
  // An upper bound of the decoded magnitudes.
  float (*bound)(const DensePlanes<const uint8_t>& planes, int32_t base_exponent) = nullptr;
  kernels::DenseKernels (*scalar)(const CodecOptions&) = nullptr;
  kernels::DenseKernels (*simd)(const CodecOptions&) = nullptr;

  int64_t code_bytes_per_block() const { return code_bits * 16; }
};

// Null for a kind that is not dense.
const DenseFormat* DenseFormatOf(CodecKind kind);

}  // namespace longhaul
