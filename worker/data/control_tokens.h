// Control tokens of a tokenizer (<|endoftext|>, </s>) that a text spells out. Immutable.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace longhaul {

class ControlTokens {
 public:
  explicit ControlTokens(std::vector<std::string> names);
  // How often one of them is in the text: the longest at each place, without overlap.
  int64_t CountIn(absl::string_view text) const;

 private:
  // By the first byte, the longest name first.
  std::array<std::vector<std::string>, 256> names_;
};

}  // namespace longhaul
