#include "coordinator/service/refusal.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"

namespace longhaul::coordinator {

absl::Status ToStatus(const Refuse& refusal) {
  ErrorDetail detail{.reason = refusal.reason};
  if (refusal.have.has_value()) detail.metadata["have"] = absl::StrCat(*refusal.have);
  absl::Status status = WithErrorInfo(refusal.status, detail);
  if (refusal.retry_after > absl::ZeroDuration()) {
    status = WithRetryDelay(std::move(status), refusal.retry_after);
  }
  return status;
}

absl::Status VersionMismatch(int fragment, int64_t wanted, int64_t have) {
  return ToStatus({.status = absl::FailedPreconditionError(
                       absl::StrCat("fragment ", fragment, " version ", wanted,
                                    " is wanted, the coordinator has version ", have)),
                   .reason = "VERSION_MISMATCH",
                   .have = have});
}

}  // namespace longhaul::coordinator
