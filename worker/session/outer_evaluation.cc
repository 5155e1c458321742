#include "worker/session/outer_evaluation.h"

#include <numeric>

#include "common/base/status_macros.h"

namespace longhaul::session {

absl::Status PublishAll(Replica& replica) {
  std::vector<int> units(replica.layout().units.size());
  std::iota(units.begin(), units.end(), 0);
  return replica.Publish(units);
}

absl::Status WithOuterParameters(Replica& replica,
                                 const std::vector<std::unique_ptr<OuterFragment>>& fragments,
                                 absl::FunctionRef<absl::Status()> work) {
  for (const auto& fragment : fragments) {
    LH_RETURN_IF_ERROR(fragment->SaveLive(replica));
    LH_RETURN_IF_ERROR(fragment->Install(replica));
  }
  LH_RETURN_IF_ERROR(PublishAll(replica));
  LH_RETURN_IF_ERROR(work());
  for (const auto& fragment : fragments) LH_RETURN_IF_ERROR(fragment->RestoreLive(replica));
  return PublishAll(replica);
}

}  // namespace longhaul::session
