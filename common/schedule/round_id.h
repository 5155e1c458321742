// Which round of a job: its fragment, the version that it makes, and its kind.
#pragma once

#include <cstdint>

#include "common/schedule/round_kind.h"

namespace longhaul {

struct RoundId {
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  friend bool operator==(const RoundId&, const RoundId&) = default;
};

}  // namespace longhaul
