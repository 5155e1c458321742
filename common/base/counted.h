// A count and what is counted, for messages: "1 rank", "2 ranks".
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace longhaul {

// `noun` is in the singular; its plural ends with "s".
inline std::string Counted(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace longhaul
