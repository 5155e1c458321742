#include "worker/session/step_agreement.h"

#include <algorithm>
#include <vector>

#include "common/base/status_macros.h"

namespace longhaul::session {

absl::StatusOr<StepAgreement::Values> StepAgreement::AfterStep(Replica& replica, int64_t step,
                                                               double step_seconds,
                                                               const Values& own, bool each_step) {
  if (replica.ranks() == 1) return own;
  if (step < next_) return Values();
  const int64_t microseconds = static_cast<int64_t>(std::min(step_seconds, 1e9) * 1e6);
  LH_ASSIGN_OR_RETURN(const std::vector<std::vector<int64_t>> ranks,
                      replica.AllGather({own.drain ? 1 : 0, own.called, microseconds}));
  Values agreed;
  int64_t slowest = 1;
  for (const std::vector<int64_t>& rank : ranks) {
    agreed.drain |= rank[0] != 0;
    agreed.called = std::max(agreed.called, rank[1]);
    slowest = std::max(slowest, rank[2]);
  }
  next_ = step + (each_step ? 1 : std::clamp<int64_t>(1'000'000 / slowest, 1, 1000));
  return agreed;
}

}  // namespace longhaul::session
