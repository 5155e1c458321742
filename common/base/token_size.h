// How many characters a bearer token may have.
#pragma once

#include <cstdint>

namespace longhaul {

inline constexpr int64_t kTokenBytesMin = 16, kTokenBytesMax = 4096;

}  // namespace longhaul
