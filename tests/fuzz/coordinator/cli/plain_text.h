// What may go to a terminal.
#pragma once

#include "absl/strings/string_view.h"

namespace longhaul::fuzz {

// Stops the process if there is a control character other than a newline: text that came from
// elsewhere must not drive the terminal.
void CheckPlainText(absl::string_view text);

}  // namespace longhaul::fuzz
