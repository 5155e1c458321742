// What a user can do about an error, apart from its message: the CLI shows it on a line of its own.
// Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace longhaul {

inline constexpr char kHintMark[] = "longhaul.status/hint";

// `status` is not OK.
inline absl::Status WithHint(absl::Status status, absl::string_view hint) {
  status.SetPayload(kHintMark, absl::Cord(hint));
  return status;
}

// Empty: it has none.
inline std::string HintIn(const absl::Status& status) {
  const absl::optional<absl::Cord> hint = status.GetPayload(kHintMark);
  return hint.has_value() ? std::string(*hint) : "";
}

}  // namespace longhaul
