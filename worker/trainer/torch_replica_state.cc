// The inner optimizer's state of a TorchReplica, taken and put back.
#include <algorithm>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/engine/engine.h"
#include "worker/family/family.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

constexpr char kUpdates[] = "updates", kSkips[] = "skips_in_a_row", kFrozenAt[] = "frozen_at",
               kLookUpdates[] = "look_updates", kLookNorm[] = "look_norm";

constexpr std::pair<InnerStateKind, OptimizerState> kOfElements[] = {
    {InnerStateKind::kMoment, OptimizerState::kMoment},
    {InnerStateKind::kVariance, OptimizerState::kVariance},
    {InnerStateKind::kGradientError, OptimizerState::kGradientError}};

constexpr std::pair<InnerStateKind, Feedback> kOfMomentum[] = {
    {InnerStateKind::kWorkerError, Feedback::kWorker},
    {InnerStateKind::kServerError, Feedback::kServer}};

OptimizerPhase PhaseOf(absl::Span<const NamedValue> values) {
  const std::vector<NamedValue> phase(values.begin(), values.end());
  const auto count = [&](const char* name) {
    return static_cast<int64_t>(PhaseValue(phase, name));
  };
  return {.updates = count(kUpdates),
          .frozen_at = count(kFrozenAt),
          .last_look = {.updates = count(kLookUpdates), .norm = PhaseValue(phase, kLookNorm)},
          .skips_in_a_row = static_cast<int>(count(kSkips))};
}

}  // namespace

std::vector<NamedValue> TorchReplica::InnerStatePhase() const {
  const OptimizerPhase phase = engine_->phase();
  std::vector<NamedValue> values = {{kUpdates, static_cast<double>(phase.updates)},
                                    {kSkips, static_cast<double>(phase.skips_in_a_row)}};
  const std::vector<DataFacts>& data = family_->data;
  for (size_t i = 0; i < data.size(); ++i) {
    values.push_back({absl::StrCat(kDataTokensPrefix, i), static_cast<double>(data[i].units)});
    // As many bits as a double has.
    values.push_back(
        {absl::StrCat(kDataSamplePrefix, i), static_cast<double>(data[i].sample >> 11)});
  }
  if (!std::holds_alternative<OneBitAdamOptions>(plan_.optimizer)) return values;
  values.push_back({kFrozenAt, static_cast<double>(phase.frozen_at)});
  values.push_back({kLookUpdates, static_cast<double>(phase.last_look.updates)});
  values.push_back({kLookNorm, phase.last_look.norm});
  return values;
}

std::vector<InnerStateSlot> TorchReplica::InnerStateSlots(
    absl::Span<const NamedValue> phase) const {
  const auto units = static_cast<int>(layout().units.size());
  std::vector<InnerStateSlot> slots;
  for (const auto& [kind, state] : kOfElements) {
    for (int unit = 0; unit < units; ++unit) {
      for (const ElementRange& range : engine_->KeptRanges(state, unit))
        slots.push_back({kind, unit, range.first, range.count});
    }
  }
  if (ranks() == 1 || PhaseOf(phase).frozen_at == 0) return slots;
  for (int unit = 0; unit < units; ++unit)
    slots.push_back({InnerStateKind::kWorkerError, unit, 0, layout().units[unit].elements});
  for (int unit = 0; unit < units; ++unit) {
    const ElementRange& owned = engine_->plan().owned(unit);
    if (owned.count > 0)
      slots.push_back({InnerStateKind::kServerError, unit, owned.first, owned.count});
  }
  return slots;
}

absl::Status TorchReplica::TakeInnerState(InnerState& state, bool alone) {
  if (!alone) LH_RETURN_IF_ERROR(engine_->CollectErrorFeedback());
  state.phase = InnerStatePhase();
  std::vector<InnerStateSlot> slots = InnerStateSlots(state.phase);
  if (alone) {
    std::erase_if(slots, [](const InnerStateSlot& slot) {
      return slot.kind == InnerStateKind::kGradientError;
    });
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    const InnerStateSlot& slot = slots[i];
    const absl::Span<float> values = absl::MakeSpan(PartFor(slot, i, state).values);
    for (const auto& [kind, of_elements] : kOfElements) {
      if (kind == slot.kind)
        LH_RETURN_IF_ERROR(engine_->ReadState(of_elements, slot.unit, slot.first, values));
    }
    for (const auto& [kind, end] : kOfMomentum) {
      if (kind != slot.kind) continue;
      const absl::Span<const float> owed = engine_->FeedbackOf(end, slot.unit);
      if (owed.size() != values.size())
        return absl::InternalError("1-bit Adam owes of other elements than its phase says");
      std::copy(owed.begin(), owed.end(), values.begin());
    }
  }
  state.parts.resize(slots.size());
  return absl::OkStatus();
}

absl::Status TorchReplica::PutInnerState(const InnerState& state) {
  const std::vector<InnerStateSlot> slots = InnerStateSlots(state.phase);
  const auto put = [&](const auto& kinds, const auto& write) -> absl::Status {
    for (const InnerStatePart& part : state.parts) {
      if (std::find(slots.begin(), slots.end(), part.slot) == slots.end()) continue;
      for (const auto& [kind, of_engine] : kinds) {
        if (kind == part.slot.kind) LH_RETURN_IF_ERROR(write(of_engine, part));
      }
    }
    return absl::OkStatus();
  };
  LH_RETURN_IF_ERROR(put(kOfElements, [&](OptimizerState kind, const InnerStatePart& part) {
    return engine_->WriteState(kind, part.slot.unit, part.slot.first, part.values);
  }));
  LH_RETURN_IF_ERROR(engine_->PublishState(PhaseOf(state.phase)));
  // The phase decides whether there is anything that is owed.
  return put(kOfMomentum, [&](Feedback end, const InnerStatePart& part) -> absl::Status {
    const absl::Span<float> owed = engine_->FeedbackOf(end, part.slot.unit);
    if (owed.size() != part.values.size())
      return absl::InternalError("1-bit Adam owes of other elements than its phase says");
    std::copy(part.values.begin(), part.values.end(), owed.begin());
    return absl::OkStatus();
  });
}

}  // namespace longhaul
