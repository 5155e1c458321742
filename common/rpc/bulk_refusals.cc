#include "common/rpc/bulk_refusals.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"

namespace longhaul {

absl::Status CheckBulkDeadline(const grpc::CallbackServerContext& context, absl::Duration max) {
  // The two times are compared, since the difference to an infinite deadline would overflow.
  if (context.deadline() <= std::chrono::system_clock::now() + absl::ToChronoMilliseconds(max)) {
    return absl::OkStatus();
  }
  return WithErrorInfo(absl::InvalidArgumentError(absl::StrCat(
                           "a bulk call needs a deadline of at most ", absl::FormatDuration(max))),
                       {"MISSING_DEADLINE", {}});
}

absl::Status MissingHeader(absl::string_view what) {
  return WithErrorInfo(absl::InvalidArgumentError(what), {"MISSING_HEADER", {}});
}

absl::Status TooManyBulkCalls() {
  return WithRetryDelay(absl::ResourceExhaustedError("too many bulk calls wait to be served"),
                        absl::Milliseconds(500));
}

}  // namespace longhaul
