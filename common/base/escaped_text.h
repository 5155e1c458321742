// Foreign text as messages quote it.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace longhaul {

// Whether a character of UTF-8 drives a terminal, or hides or turns round the text beside it:
// controls, marks of direction, spaces without width, separators of lines.
bool DrivesTerminal(absl::string_view character);

// The text as it can be written between quotes, and shown in a terminal. Characters stay as they
// are, in any script. Line ends and tabs become \n, \r and \t; of other controls, of what turns
// round or hides the text beside it, and of what is no UTF-8, each byte becomes \xHH; quotes and
// \ get a \ before them.
std::string EscapedText(absl::string_view text);
// The same for text that is not quoted: quotes and \ stay as they are.
std::string EscapedLine(absl::string_view text);

}  // namespace longhaul
