// Reads the details of a refusal (google.rpc.ErrorInfo).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "common/rpc/status_details.h"

namespace longhaul::session {

// ErrorInfo.reason. Empty: the status has none.
inline std::string ReasonOf(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = ErrorInfoOf(status);
  return detail ? detail->reason : "";
}

// The version that the coordinator has, if a push was refused with VERSION_MISMATCH.
inline std::optional<int64_t> HaveVersion(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = ErrorInfoOf(status);
  if (!detail || detail->reason != "VERSION_MISMATCH") return std::nullopt;
  const auto have = detail->metadata.find("have");
  int64_t version;
  if (have == detail->metadata.end() || !absl::SimpleAtoi(have->second, &version))
    return std::nullopt;
  return version;
}

}  // namespace longhaul::session
