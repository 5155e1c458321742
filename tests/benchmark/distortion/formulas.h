// What a codec with scaled blocks would lose with blocks of another size or scales of another
// precision than those that are sent: plain formulas in double, for comparison. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"

namespace longhaul::distortion {

enum class Scale {
  kFp32,    // As it comes.
  kByte,    // 3 mantissa bits: what e3m0 sends.
  kWord,    // 8 mantissa bits: what the others send.
  kSearch,  // The least error among 16 neighbours.
};

// NMSE over blocks of `block` elements. INVALID_ARGUMENT: a codec without scales, or one whose
// scale has nothing to search.
absl::StatusOr<double> Nmse(CodecKind kind, Scale scale, int64_t block,
                            absl::Span<const float> values);

}  // namespace longhaul::distortion
