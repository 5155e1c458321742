// Values that messages between programs and stored records share: converts between protos and the
// program's own types.
#pragma once

#include <optional>

#include "common/io/digest.h"
#include "common/schedule/round_kind.h"
#include "longhaul/v1/fragment.pb.h"

namespace longhaul {

v1::Digest ToProto(const Digest128& digest);
Digest128 DigestFromProto(const v1::Digest& digest);

v1::RoundKind ToProto(RoundKind kind);
// Empty if it is unspecified, or a kind of a newer version.
std::optional<RoundKind> RoundKindFromProto(v1::RoundKind kind);

}  // namespace longhaul
