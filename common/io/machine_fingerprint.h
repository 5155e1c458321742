// Tells machines apart for which something was measured.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace longhaul {

// Identifies the machine for which measured rates are valid: by its processor and by `of`. `root`:
// the path of the system's root, for tests.
std::string MachineFingerprint(absl::string_view of, const std::string& root = "");

}  // namespace longhaul
