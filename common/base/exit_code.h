// Exit codes that all programs share. The CLI has more of them (coordinator/cli/exit_code.h).
#pragma once

#include "absl/status/status.h"

namespace longhaul {

// The program failed, or cannot start for a reason that may pass.
inline constexpr int kExitFailed = 1;
// There is no connection, or access was refused.
inline constexpr int kExitRefused = 2;
// A flag is wrong, or a file that a flag names.
inline constexpr int kExitBadArguments = 4;
// A daemon was asked to end and could not in time, since what it waits for stands still: a disk,
// a pipe (common/command_line/stop_deadline.h). What it had made durable is durable.
inline constexpr int kExitStuck = 6;

// The exit code of a program that cannot start. A wrong command line stays wrong. Everything else
// may pass (a folder that is not mounted yet, a port in use), so it makes sense to start it again.
inline int StartExitCode(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? kExitBadArguments : kExitFailed;
}

// The exit code of a server for an error in the TLS files that flags name (common/rpc/tls_files.h).
// A file that is not there, or cannot be read, may come with a folder that is mounted later, or
// with other rights. A certificate that is out of date is not a mistake of the command line: the
// peer would refuse it.
inline int TlsExitCode(const absl::Status& status) {
  if (absl::IsUnauthenticated(status)) return kExitRefused;
  // Others may read or write a key: a person's mistake.
  return absl::IsFailedPrecondition(status) ? kExitBadArguments : StartExitCode(status);
}

}  // namespace longhaul
