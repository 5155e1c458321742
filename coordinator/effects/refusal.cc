#include "coordinator/effects/refusal.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"

namespace longhaul::coordinator {

absl::Status ToStatus(const Refuse& refusal) {
  ErrorDetail detail{.reason = refusal.reason};
  if (refusal.have.has_value()) detail.metadata["have"] = absl::StrCat(*refusal.have);
  if (!refusal.hint.empty()) detail.metadata["hint"] = refusal.hint;
  absl::Status status = WithErrorInfo(refusal.status, detail);
  if (refusal.retry_after > absl::ZeroDuration()) {
    status = WithRetryDelay(std::move(status), refusal.retry_after);
  }
  return status;
}

Refuse HaltedRefusal() {
  return {.status = absl::UnavailableError("the coordinator is shutting down"), .reason = "HALTED"};
}

absl::Status DiskFullError(absl::string_view why) {
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat("the coordinator's disk is full: ", why)),
      absl::Seconds(5));
}

Refuse DiskFullRefusal(absl::string_view why, absl::Duration retry_after) {
  return {.status = DiskFullError(why), .reason = "DISK_FULL", .retry_after = retry_after};
}

absl::Status NoSuchJob(absl::string_view name_or_id) {
  return WithErrorInfo(
      absl::NotFoundError(absl::StrCat("no job has the name or id \"", name_or_id, "\"")),
      {"JOB_UNKNOWN", {}});
}

absl::Status Overloaded() {
  return WithRetryDelay(absl::ResourceExhaustedError("too many calls wait for the coordinator"),
                        absl::Seconds(1));
}

JobFault FaultOf(const absl::Status& status, absl::string_view what, absl::string_view hint) {
  return {.code = absl::StatusCodeToString(status.code()),
          .message = absl::StrCat(what, ": ", status.message()),
          .hint = std::string(hint)};
}

}  // namespace longhaul::coordinator
