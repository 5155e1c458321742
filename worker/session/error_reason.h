// The stable reason of a refusal (ErrorInfo.reason), or nothing.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/rpc/status_details.h"

namespace longhaul::session {

inline std::string ReasonOf(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = ErrorInfoOf(status);
  return detail ? detail->reason : "";
}

}  // namespace longhaul::session
