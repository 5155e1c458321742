// Values of the stored messages (longhaul.store.v1), and the words of the program for them.
#pragma once

#include <optional>

#include "common/io/digest.h"
#include "common/schedule/round_kind.h"
#include "longhaul/v1/fragment.pb.h"

namespace longhaul {

inline v1::Digest ToProto(const Digest128& digest) {
  v1::Digest proto;
  proto.set_high(digest.high);
  proto.set_low(digest.low);
  return proto;
}
inline Digest128 FromProto(const v1::Digest& proto) { return {proto.high(), proto.low()}; }

inline v1::RoundKind ToProto(RoundKind kind) {
  switch (kind) {
    case RoundKind::kSeed:
      return v1::SEED;
    case RoundKind::kOuter:
      return v1::OUTER;
    case RoundKind::kFinal:
      return v1::FINAL;
    case RoundKind::kSkipped:
      return v1::SKIPPED;
  }
  return v1::ROUND_KIND_UNSPECIFIED;
}
// Nothing: no kind of this program.
inline std::optional<RoundKind> FromProto(v1::RoundKind kind) {
  switch (kind) {
    case v1::SEED:
      return RoundKind::kSeed;
    case v1::OUTER:
      return RoundKind::kOuter;
    case v1::FINAL:
      return RoundKind::kFinal;
    case v1::SKIPPED:
      return RoundKind::kSkipped;
    default:
      return std::nullopt;
  }
}

}  // namespace longhaul
