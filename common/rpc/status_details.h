// Machine-readable details of an absl::Status: the google.rpc messages that proto/longhaul/v1
// promises. They are payloads (Status::SetPayload, keyed by type URL), so they pass unchanged
// through code with StatusOr. status_conversion.h brings them over the wire. Pure functions;
// nothing here blocks or fails.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace longhaul {

inline constexpr absl::string_view kErrorDomain = "longhaul";

// One wrong field of a request. `field` is its path ("sync.rounds[2].tau").
struct FieldViolation {
  std::string field;
  std::string description;
  friend bool operator==(const FieldViolation&, const FieldViolation&) = default;
};

// Why a call failed, for programs. `reason` is a constant in UPPER_SNAKE_CASE (VERSION_MISMATCH),
// and `metadata` has the facts.
struct ErrorDetail {
  std::string reason;
  std::map<std::string, std::string> metadata;
  friend bool operator==(const ErrorDetail&, const ErrorDetail&) = default;
};

// INVALID_ARGUMENT with a message that names every violation, and a BadRequest. Requires at least
// one violation.
absl::Status BadRequestError(const std::vector<FieldViolation>& violations);

// Adds the detail to `status`, and replaces a detail of the same kind. An OK status is not changed.
// Violations beyond 2 KiB are left out, so that the status fits into a trailer; a last one without
// a field says how many.
absl::Status WithFieldViolations(absl::Status status,
                                 const std::vector<FieldViolation>& violations);
absl::Status WithErrorInfo(absl::Status status, const ErrorDetail& detail);
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// The details of a status. Empty if it has none, or bytes that do not parse (they may come from a
// peer).
std::vector<FieldViolation> FieldViolationsOf(const absl::Status& status);
std::optional<ErrorDetail> ErrorInfoOf(const absl::Status& status);
// Never negative.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

}  // namespace longhaul
