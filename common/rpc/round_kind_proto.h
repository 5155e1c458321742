// RoundKind between the proto and the cores' word for it.
#pragma once

#include <optional>

#include "common/schedule/round_kind.h"
#include "longhaul/v1/fragment.pb.h"

namespace longhaul {

v1::RoundKind ToProto(RoundKind kind);
// Nothing: unspecified, or a kind of a newer version.
std::optional<RoundKind> RoundKindFromProto(v1::RoundKind kind);

}  // namespace longhaul
