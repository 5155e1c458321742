#include "tests/fuzz/coordinator/cli/plain_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "common/base/check.h"

namespace longhaul::fuzz {

void CheckPlainText(absl::string_view text) {
  const auto drives = [](unsigned char c) { return absl::ascii_iscntrl(c) && c != '\n'; };
  LH_CHECK(std::none_of(text.begin(), text.end(), drives), "text without control characters");
}

}  // namespace longhaul::fuzz
