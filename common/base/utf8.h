// Makes text fit for protobuf: shortens it, and replaces what is not UTF-8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
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

// The same for words that people read: it ends after a whole word, where there is one in its second
// half, and with "...".
inline std::string ClipWords(absl::string_view text, size_t bytes_max) {
  constexpr absl::string_view kMark = " ...";
  if (text.size() <= bytes_max || bytes_max <= kMark.size())
    return std::string(ClipUtf8(text, bytes_max));
  const absl::string_view clipped = ClipUtf8(text, bytes_max - kMark.size());
  // One more byte: the word may end just there.
  const size_t end = text.substr(0, clipped.size() + 1).rfind(' ');
  const bool whole = end != absl::string_view::npos && end > bytes_max / 2;
  return absl::StrCat(whole ? text.substr(0, end) : clipped, whole ? kMark : kMark.substr(1));
}

// The bytes of the character with which the text begins. 0: it does not begin with one (RFC 3629).
inline size_t Utf8Size(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty() || byte(0) < 0x80) return text.empty() ? 0 : 1;
  const size_t size = byte(0) < 0xC2 ? 0 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (size == 0 || byte(0) > 0xF4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Characters that have a shorter form, surrogates, and what lies behind the last character.
  const bool wrong = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) > 0x9F) ||
                     (byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) > 0x8F);
  return wrong ? 0 : size;
}

// How many bytes at the beginning of the text are UTF-8.
inline size_t Utf8Prefix(absl::string_view text) {
  size_t at = 0;
  for (size_t size; (size = Utf8Size(text.substr(at))) > 0; at += size) {
  }
  return at;
}

// The text with U+FFFD for each byte that is not of a character.
inline std::string ToUtf8(absl::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t size = Utf8Size(text.substr(at));
    absl::StrAppend(&result, size == 0 ? "\xEF\xBF\xBD" : text.substr(at, size));
    at += std::max<size_t>(1, size);
  }
  return result;
}

}  // namespace longhaul
