// A number of bytes in words, for people.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

// "0 B", "12.3 MiB", "8.0 EiB".
std::string BytesText(int64_t bytes);

}  // namespace longhaul
