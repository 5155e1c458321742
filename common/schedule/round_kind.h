// What a round of a fragment does with the contributions. Both cores use it (RoundKind in
// fragment.proto).
#pragma once

namespace longhaul {

enum class RoundKind {
  // Version 0: one pool's initial parameters, exactly.
  kSeed,
  // A weighted mean and an outer step.
  kOuter,
  // A weighted mean and nothing else: the last round of a job.
  kFinal,
  // No pool could contribute: the version changes, but the parameters do not.
  kSkipped,
};

constexpr const char* RoundKindName(RoundKind kind) {
  switch (kind) {
    case RoundKind::kSeed:
      return "seed";
    case RoundKind::kOuter:
      return "outer";
    case RoundKind::kFinal:
      return "final";
    case RoundKind::kSkipped:
      return "skipped";
  }
  return "unknown";
}

}  // namespace longhaul
