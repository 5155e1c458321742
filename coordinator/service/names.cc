#include "coordinator/service/names.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "common/rpc/status_details.h"

namespace longhaul::coordinator {

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

absl::Status CheckPool(absl::string_view pool, absl::string_view incarnation) {
  std::vector<FieldViolation> violations;
  if (!IsName(pool)) {
    violations.push_back({"pool", "is not 1 to 63 of [a-z0-9-], beginning with a letter"});
  }
  if (!IsIncarnation(incarnation)) {
    violations.push_back({"incarnation", "is not 16 to 64 of [0-9a-f]"});
  }
  return violations.empty() ? absl::OkStatus() : BadRequestError(violations);
}

}  // namespace longhaul::coordinator
