#include "common/wire/proto_values.h"

namespace longhaul {

v1::Digest ToProto(const Digest128& digest) {
  v1::Digest message;
  message.set_high(digest.high);
  message.set_low(digest.low);
  return message;
}

Digest128 DigestFromProto(const v1::Digest& digest) { return {digest.high(), digest.low()}; }

v1::RoundKind ToProto(RoundKind kind) {
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

std::optional<RoundKind> RoundKindFromProto(v1::RoundKind kind) {
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
