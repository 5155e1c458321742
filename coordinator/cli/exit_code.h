// Exit codes of the CLI: a contract with scripts, listed in `longhaul --help`.
#pragma once

namespace longhaul::cli {

enum class ExitCode {
  kOk = 0,
  // The job failed, was cancelled or is quarantined; the server refused or failed; the answer could
  // not be written.
  kFailed = 1,
  // No connection, or not allowed in.
  kConnection = 2,
  // A deadline passed (--timeout).
  kTimeout = 3,
  // Bad arguments or a bad spec.
  kUsage = 4,
  // A fault of the CLI itself.
  kInternal = 5,
};

}  // namespace longhaul::cli
