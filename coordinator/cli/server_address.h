// Where the coordinator is.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cli/environment.h"

namespace longhaul::cli {

// `flag` if not empty; else LONGHAUL_SERVER; else `server: host:port` in longhaul/config.yaml under
// XDG_CONFIG_HOME or
// ~/.config; else localhost:7070. INVALID_ARGUMENT, naming the source: not host:port, a file that
// is not YAML or has other keys. Reads the file only when it is needed; one that is not there is
// none.
absl::StatusOr<std::string> ServerAddress(const std::string& flag, const Environment& environment);

}  // namespace longhaul::cli
