#include "common/base/escaped_text.h"

#include <algorithm>

#include "common/base/utf8.h"

namespace longhaul {
namespace {

std::string Escaped(absl::string_view text, bool quoted) {
  constexpr char kDigits[] = "0123456789abcdef", kNames[] = "nrt";
  constexpr absl::string_view kNamed = "\n\r\t";
  std::string result;
  while (!text.empty()) {
    const size_t size = Utf8Size(text);
    const absl::string_view character = text.substr(0, std::max<size_t>(1, size));
    text.remove_prefix(character.size());
    if (size == 0 || DrivesTerminal(character)) {
      if (const size_t named = kNamed.find(character[0]); named != kNamed.npos) {
        result.append({'\\', kNames[named]});
        continue;
      }
      for (const char c : character) {
        const auto byte = static_cast<unsigned char>(c);
        result.append({'\\', 'x', kDigits[byte >> 4], kDigits[byte & 0xF]});
      }
      continue;
    }
    if (quoted && (character == "\\" || character == "'" || character == "\""))
      result.push_back('\\');
    result.append(character.data(), character.size());
  }
  return result;
}

}  // namespace

bool DrivesTerminal(absl::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (character == "\xEF\xBB\xBF") return true;
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  // U+200B to U+200F, U+2028 to U+202E; U+2060 to U+206F.
  return (byte(1) == 0x80 &&
          ((byte(2) >= 0x8B && byte(2) <= 0x8F) || (byte(2) >= 0xA8 && byte(2) <= 0xAE))) ||
         (byte(1) == 0x81 && byte(2) >= 0xA0 && byte(2) <= 0xAF);
}

std::string EscapedText(absl::string_view text) { return Escaped(text, /*quoted=*/true); }
std::string EscapedLine(absl::string_view text) { return Escaped(text, /*quoted=*/false); }

}  // namespace longhaul
