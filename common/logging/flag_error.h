// Says what is wrong with a command line, before the program has a log: in the form that the same
// command line asks of the log.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

// Whether the last --log-format of a command line, or else LONGHAUL_LOG_FORMAT, says json. The rest
// of the command line may be anything.
bool AsksForJsonLog(int argc, const char* const* argv);

// To standard error: a JSON line if it does, else "error: MESSAGE" and, below it, "hint: HINT", as
// EscapedLine makes them, since they may quote the command line.
// `hint` may be empty.
void SayFlagError(const std::string& program, int argc, const char* const* argv,
                  absl::string_view message, absl::string_view hint);

// The error with the flag's name before its message. An OK status stays OK.
absl::Status OfFlag(absl::string_view flag, const absl::Status& status);
// Likewise; a value stays as it is.
template <typename T>
absl::StatusOr<T> OfFlag(absl::string_view flag, absl::StatusOr<T> value) {
  if (!value.ok()) return OfFlag(flag, value.status());
  return value;
}

}  // namespace longhaul
