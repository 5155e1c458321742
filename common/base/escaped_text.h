// Foreign text as messages quote it.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace longhaul {

// The text as it can be written between quotes, and shown in a terminal. Characters stay as they
// are, in any script. Line ends and tabs become \n, \r and \t; of other controls, of what turns
// round or hides the text beside it, and of what is no UTF-8, each byte becomes \xHH; quotes and
// \ get a \ before them.
std::string EscapedText(absl::string_view text);

}  // namespace longhaul
