#include "coordinator/service/names.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"

namespace longhaul::coordinator {

absl::Status CheckPool(absl::string_view pool, absl::string_view incarnation) {
  std::vector<FieldViolation> violations;
  if (!IsName(pool)) violations.push_back({"pool", absl::StrCat("is not ", kNameForm)});
  if (!IsIncarnation(incarnation)) {
    violations.push_back({"incarnation", absl::StrCat("is not ", kIncarnationForm)});
  }
  return violations.empty() ? absl::OkStatus() : BadRequestError(violations);
}

}  // namespace longhaul::coordinator
