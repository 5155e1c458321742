// Exit codes of the CLI: a contract with scripts, listed in `longhaul --help`.
#pragma once

namespace longhaul::cli {

enum class ExitCode {
  kOk = 0,
  // The job failed, was cancelled or is quarantined; the server refused or failed; the answer could
  // not be written.
  kFailed = 1,
  kConnection = 2,  // No connection, or not allowed in.
  kTimeout = 3,     // A deadline passed (--timeout).
  kUsage = 4,       // Bad arguments or a bad spec.
  kInternal = 5,    // A fault of the CLI itself.
};

}  // namespace longhaul::cli
