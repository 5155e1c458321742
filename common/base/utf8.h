// Text of bounded size.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace longhaul {

// The first bytes of the text, at most `bytes_max`, and no part of a UTF-8 sequence at its end:
// protobuf refuses a string that is cut there.
inline absl::string_view ClipUtf8(absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t size = bytes_max;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

}  // namespace longhaul
