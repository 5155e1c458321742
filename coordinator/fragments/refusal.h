// Refusals as the contract defines them: canonical codes with ErrorInfo. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"

namespace longhaul::coordinator {

inline absl::Status UnknownJob(absl::string_view job) {
  return WithErrorInfo(absl::NotFoundError(absl::StrCat("no live job ", job)), {"JOB_UNKNOWN", {}});
}
inline absl::Status UnknownFragment(int64_t fragment) {
  return WithErrorInfo(absl::NotFoundError(absl::StrCat("no fragment ", fragment)),
                       {"FRAGMENT_UNKNOWN", {}});
}
inline absl::Status NotSeeded(int fragment) {
  return WithErrorInfo(
      absl::FailedPreconditionError(absl::StrCat("fragment ", fragment, " is not seeded yet")),
      {"NOT_SEEDED", {}});
}
inline absl::Status VersionMismatch(int fragment, int64_t wanted, int64_t have) {
  return WithErrorInfo(absl::FailedPreconditionError(
                           absl::StrCat("fragment ", fragment, " version ", wanted,
                                        " was requested, the coordinator has version ", have)),
                       {"VERSION_MISMATCH", {{"have", absl::StrCat(have)}}});
}
// Of a pull of the outer parameters, in whatever version: pulling again gives the newer one.
inline absl::Status CommittedMeanwhile(int fragment, int64_t began, int64_t have) {
  return WithErrorInfo(absl::UnavailableError(absl::StrCat(
                           "version ", have, " of fragment ", fragment,
                           " was committed while version ", began, " was pulled; pull again")),
                       {"VERSION_MISMATCH", {{"have", absl::StrCat(have)}}});
}

}  // namespace longhaul::coordinator
