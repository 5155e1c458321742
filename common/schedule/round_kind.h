// What a round of a fragment does with the contributions: the word that both cores share (RoundKind
// in fragment.proto).
#pragma once

namespace longhaul {

enum class RoundKind {
  kSeed,     // Version 0: one pool's initial parameters, exactly.
  kOuter,    // A weighted mean and an outer step.
  kFinal,    // A weighted mean and nothing else: the last round of a job.
  kSkipped,  // Nobody could contribute: the parameters stay as they are under the new version.
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
