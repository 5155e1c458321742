#include "common/base/names.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace longhaul {

bool IsName(absl::string_view name) {
  if (name.empty() || name.size() > 63 || !absl::ascii_islower(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  });
}

bool IsIncarnation(absl::string_view incarnation) {
  if (incarnation.size() < 16 || incarnation.size() > 64) return false;
  return std::all_of(incarnation.begin(), incarnation.end(), [](unsigned char c) {
    return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
  });
}

}  // namespace longhaul
