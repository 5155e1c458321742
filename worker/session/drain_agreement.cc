#include "worker/session/drain_agreement.h"

#include <algorithm>
#include <vector>

#include "common/base/status_macros.h"

namespace longhaul::session {

absl::StatusOr<bool> DrainAgreement::AfterStep(Replica& replica, int64_t step, double step_seconds,
                                               bool asked) {
  if (replica.ranks() == 1) return asked;
  if (step < next_) return false;
  const int64_t microseconds = static_cast<int64_t>(std::min(step_seconds, 1e9) * 1e6);
  LH_ASSIGN_OR_RETURN(const std::vector<std::vector<int64_t>> ranks,
                      replica.AllGather({asked ? 1 : 0, microseconds}));
  bool any = false;
  int64_t slowest = 1;
  for (const std::vector<int64_t>& rank : ranks) {
    any |= rank[0] != 0;
    slowest = std::max(slowest, rank[1]);
  }
  next_ = step + std::clamp<int64_t>(1'000'000 / slowest, 1, 1000);
  return any;
}

}  // namespace longhaul::session
