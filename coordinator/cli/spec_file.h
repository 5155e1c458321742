// Reads the text files that users name.
#pragma once

#include <istream>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "coordinator/cli/arguments.h"
#include "coordinator/cli/cli_error.h"
#include "coordinator/cli/environment.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::cli {

// At most 1 MiB. NOT_FOUND: no such file. INVALID_ARGUMENT: it is larger, or cannot be read.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// The same for a stream, until its end; `name` is for the messages.
absl::StatusOr<std::string> ReadText(std::istream& stream, const std::string& name);

// The spec of `arguments.file` (-: standard input) with `arguments.overrides`, or why there is
// none. Only its types are checked.
std::variant<v1::JobSpec, CliError> ReadJobSpec(const Arguments& arguments,
                                                const Environment& environment);

// Fills in what the folders of this machine say that the spec names: Hugging Face models, graphs.
// An error: what is wrong with them; the spec is then unusable. Blocks on the disk.
std::optional<CliError> ResolveFolders(v1::JobSpec& spec);

}  // namespace longhaul::cli
