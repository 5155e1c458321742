// Whether numbers are finite.
#pragma once

#include <bit>
#include <cstdint>

#include "absl/types/span.h"

namespace longhaul {

inline bool AllFinite(absl::Span<const float> values) {
  bool finite = true;
  for (const float value : values)
    finite &= (std::bit_cast<uint32_t>(value) & 0x7f800000) != 0x7f800000;
  return finite;
}

}  // namespace longhaul
