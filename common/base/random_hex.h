// Names and secrets that nobody can guess.
#pragma once

#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace longhaul {

// 32 hexadecimal digits from the system's source of random numbers. Thread-safe.
inline std::string RandomHex() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&text, absl::Hex(random(), absl::kZeroPad8));
  return text;
}

}  // namespace longhaul
