// The errors that a decoder may give: those that its header names, with a message.
#pragma once

#include <algorithm>
#include <cstdio>
#include <initializer_list>

#include "absl/status/status.h"
#include "common/base/check.h"

namespace longhaul::fuzz {

inline void CheckDocumented(const absl::Status& status,
                            std::initializer_list<absl::StatusCode> codes) {
  if (status.ok()) return;
  const bool documented = std::find(codes.begin(), codes.end(), status.code()) != codes.end();
  if (!documented) std::fprintf(stderr, "undocumented: %s\n", status.ToString().c_str());
  LH_CHECK(documented, "an error code that the contract does not name");
  LH_CHECK(!status.message().empty(), "an error says what is wrong");
}

}  // namespace longhaul::fuzz
