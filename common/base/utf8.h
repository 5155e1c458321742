// Shortens text.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace longhaul {

// The first bytes of the text, at most `bytes_max`. It never ends inside a UTF-8 sequence, since
// protobuf refuses such a string.
inline absl::string_view ClipUtf8(absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t size = bytes_max;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

}  // namespace longhaul
