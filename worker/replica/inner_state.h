// What a pool's inner optimizer remembers between two steps, as one rank holds it: values of elements,
// by kind, unit and range, and how far the optimizer is. Taken from a replica, kept at the pool's site
// (worker/state), and put back when its ranks begin again. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/named_value.h"

namespace longhaul {

enum class InnerStateKind {
  kMoment,         // m of Adam, the momentum of Muon.
  kVariance,       // v of Adam.
  kGradientError,  // What quantizing gradients owes, all ranks together.
  kWorkerError,    // What 1-bit Adam owes at a rank, of every element: that rank's own.
  kServerError,    // What it owes of the average that a rank makes of its elements.
  kUplinkError,    // What coding contributions owes: the exchange's, not the replica's.
};
inline constexpr InnerStateKind kInnerStateKinds[] = {
    InnerStateKind::kMoment,      InnerStateKind::kVariance,    InnerStateKind::kGradientError,
    InnerStateKind::kWorkerError, InnerStateKind::kServerError, InnerStateKind::kUplinkError};

// "moment", "uplink_error".
absl::string_view NameOf(InnerStateKind kind);
std::optional<InnerStateKind> InnerStateKindOf(absl::string_view name);

// Means something on the same rank of as many ranks alone.
inline bool IsOfRank(InnerStateKind kind) { return kind == InnerStateKind::kWorkerError; }
// Without it an optimizer goes on as if nothing was owed; without the others it begins anew.
inline bool IsOptional(InnerStateKind kind) {
  return kind == InnerStateKind::kWorkerError || kind == InnerStateKind::kServerError ||
         kind == InnerStateKind::kUplinkError;
}

// Elements [first, first + count) of a unit.
struct InnerStateSlot {
  InnerStateKind kind = InnerStateKind::kMoment;
  int unit = 0;
  int64_t first = 0, count = 0;
  friend bool operator==(const InnerStateSlot&, const InnerStateSlot&) = default;
};

struct InnerStatePart {
  InnerStateSlot slot;
  std::vector<float> values;  // slot.count of them.
};

struct InnerState {
  // How far the optimizer is, by names that are the replica's; the same on all ranks. Whole numbers
  // are below 2^53.
  std::vector<NamedValue> phase;
  std::vector<InnerStatePart> parts;
};

// Of the phase. 0: it has no such value.
double PhaseValue(const std::vector<NamedValue>& phase, absl::string_view name);

// The part of a slot, to be filled, in memory that `state` may have from an earlier use: parts are
// asked for in the same order each time, from index 0 on.
InnerStatePart& PartFor(const InnerStateSlot& slot, size_t index, InnerState& state);

}  // namespace longhaul
