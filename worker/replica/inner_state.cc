#include "worker/replica/inner_state.h"

#include "common/base/check.h"

namespace longhaul {

absl::string_view NameOf(InnerStateKind kind) {
  switch (kind) {
    case InnerStateKind::kMoment:
      return "moment";
    case InnerStateKind::kVariance:
      return "variance";
    case InnerStateKind::kGradientError:
      return "gradient_error";
    case InnerStateKind::kWorkerError:
      return "worker_error";
    case InnerStateKind::kServerError:
      return "server_error";
    case InnerStateKind::kUplinkError:
      return "uplink_error";
  }
  return "";
}

std::optional<InnerStateKind> InnerStateKindOf(absl::string_view name) {
  for (const InnerStateKind kind : kInnerStateKinds) {
    if (name == NameOf(kind)) return kind;
  }
  return std::nullopt;
}

double PhaseValue(const std::vector<NamedValue>& phase, absl::string_view name) {
  for (const NamedValue& value : phase) {
    if (value.name == name) return value.value;
  }
  return 0;
}

InnerStatePart& PartFor(const InnerStateSlot& slot, size_t index, InnerState& state) {
  LH_CHECK(index <= state.parts.size(), "parts are asked for in order");
  if (index == state.parts.size()) state.parts.emplace_back();
  InnerStatePart& part = state.parts[index];
  part.slot = slot;
  part.values.resize(slot.count);
  return part;
}

}  // namespace longhaul
