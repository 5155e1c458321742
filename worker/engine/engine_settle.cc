// The synchronisation of local steps of 0/1 Adam.
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/engine/engine.h"
#include "worker/engine/torch_status.h"

namespace longhaul {

absl::StatusOr<ReceivedBytes> Engine::Settle() {
  return CatchTorch("settling local steps", [&]() -> absl::StatusOr<ReceivedBytes> {
    LH_RETURN_IF_ERROR(SynchronizeSteps());
    return TakeReceived();
  });
}

// The steps of one unit are exchanged while the previous unit is updated. They use the memory of
// the unit's gradient, which the update needs no more.
absl::Status Engine::SynchronizeSteps() {
  if (momentum_ == nullptr || !momentum_->unsettled()) return absl::OkStatus();
  const Trace::Span span(trace_.get(), Trace::Track::kCompute, "synchronising local steps");
  const int units = static_cast<int>(layout().units.size());
  std::vector<StreamQueue::Ticket> averaged;
  for (int unit = 0; unit < units; ++unit) {
    averaged.push_back(queue_->Submit(
        absl::StrCat("averaging the local steps of ", layout().units[unit].name),
        [this, unit] { return momentum_->AverageSteps(unit, gradients_.sum(unit)); }));
  }
  StreamQueue::Ticket last = 0;
  for (int unit = 0; unit < units; ++unit) {
    LH_RETURN_IF_ERROR(queue_->Wait(averaged[unit]));
    for (int i = plan_.first_subgroup(unit); i < plan_.first_subgroup(unit + 1); ++i)
      momentum_->SetSteps(UpdateOf(i));
    last = SubmitRefresh(unit);
  }
  momentum_->Settled();
  return queue_->Wait(last);
}

bool Engine::settled() const { return momentum_ == nullptr || !momentum_->unsettled(); }

absl::Status Engine::CheckSettled() const {
  if (settled()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the ranks differ by local steps of 0/1 Adam: they were not settled");
}

}  // namespace longhaul
