// Why a command did not succeed, in forms for people and for scripts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/config/spec_violation.h"
#include "common/config/yaml_json.h"
#include "common/rpc/status_details.h"
#include "coordinator/cli/exit_code.h"

namespace longhaul::cli {

struct CliError {
  ExitCode exit = ExitCode::kInternal;
  // Canonical code ("NOT_FOUND"), or JOB_FAILED, JOB_CANCELLED.
  std::string code;
  std::string message;
  // What to do about it. May be empty.
  std::string hint;
  // The server's stable reason. May be empty.
  std::string reason;
  // Said in place of the server's message, which repeats the fields.
  std::string refusal = "the request is refused";
  // Every field at fault.
  std::vector<FieldViolation> fields;
  std::optional<absl::Duration> retry_after;
};

inline constexpr char kSpecRefused[] = "the job spec is refused";

// The error of what this program does itself.
CliError ErrorOf(const absl::Status& status, ExitCode exit, std::string hint = "");

// The exit code of a command that reads or makes files that its arguments name: kUsage if another
// argument would do.
ExitCode ExitOfFiles(const absl::Status& status);

// The error of a failed call to the server at `address`. The status has its google.rpc details.
CliError ErrorOfCall(const absl::Status& status, const std::string& address);

// The error of a spec that this program refused.
CliError ErrorOfSpec(const absl::Status& status, const std::vector<SpecViolation>& violations,
                     const std::string& refusal = kSpecRefused);

std::vector<FieldViolation> FieldsOf(const std::vector<SpecViolation>& violations);

CliError UsageError(std::string message, std::string hint = "");

// The `error` member of the envelope.
Json ToJson(const CliError& error);

// Several lines for people: ten fields in full, and the names of the others. `colour`: with
// terminal escapes.
std::string ToText(const CliError& error, bool colour);

}  // namespace longhaul::cli
