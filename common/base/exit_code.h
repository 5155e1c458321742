// Exit codes that all programs share. The CLI has more of them (coordinator/cli/exit_code.h).
#pragma once

#include "absl/status/status.h"

namespace longhaul {

// There is no connection, or access was refused.
inline constexpr int kExitRefused = 2;
// A flag is wrong, or a file that a flag names.
inline constexpr int kExitBadArguments = 4;

// The exit code for an error in the TLS files that flags name (common/rpc/tls_files.h). A
// certificate that is out of date is not a mistake of the command line: the peer would refuse it.
inline int TlsExitCode(const absl::Status& status) {
  return absl::IsUnauthenticated(status) ? kExitRefused : kExitBadArguments;
}

}  // namespace longhaul
