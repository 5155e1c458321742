// Reads the text files that users name.
#pragma once

#include <istream>
#include <string>

#include "absl/status/statusor.h"

namespace longhaul::cli {

// At most 1 MiB. NOT_FOUND: no such file. INVALID_ARGUMENT: it is larger, or cannot be read.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// The same for a stream, until its end; `name` is for the messages.
absl::StatusOr<std::string> ReadText(std::istream& stream, const std::string& name);

}  // namespace longhaul::cli
