#include "tests/fuzz/coordinator/cli/plain_text.h"

#include "absl/strings/ascii.h"
#include "common/base/check.h"

namespace longhaul::fuzz {

void CheckPlainText(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    LH_CHECK(!absl::ascii_iscntrl(text[i]) || text[i] == '\n', "no control character");
    const bool second = i > 0 && text[i - 1] == '\xC2' && (text[i] & 0xE0) == 0x80;
    LH_CHECK(!second, "no control character of U+0080 to U+009F");
  }
}

}  // namespace longhaul::fuzz
