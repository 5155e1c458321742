#include "coordinator/service/names.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
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

absl::Status CheckPool(const PoolCaller& caller, absl::string_view pool,
                       absl::string_view incarnation) {
  LH_RETURN_IF_ERROR(CheckPool(pool, incarnation));
  return caller.MayActFor(pool);
}

absl::Status CheckRanks(int ranks) {
  if (ranks >= 1 && ranks <= kRanksMax) return absl::OkStatus();
  return BadRequestError({{"ranks", absl::StrCat(ranks, " is not within 1 to ", kRanksMax)}});
}

}  // namespace longhaul::coordinator
