// The state of a pool's inner optimizer between two steps, as one rank holds it: values of
// elements, by kind, unit and range, and the optimizer's phase (its counters). It is taken from a
// replica, kept at the pool's site (worker/state), and restored when the ranks start again. Plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/named_value.h"

namespace longhaul {

enum class InnerStateKind {
  // m of Adam, the momentum of Muon.
  kMoment,
  // v of Adam.
  kVariance,
  // The error feedback of quantized gradients, summed over the ranks.
  kGradientError,
  // The worker's error feedback of 1-bit Adam: of all elements, different on each rank.
  kWorkerError,
  // The server's error feedback of 1-bit Adam: of the elements that this rank averages.
  kServerError,
  // The error feedback of the uplink. The session keeps it, not the replica.
  kUplinkError,
};
inline constexpr InnerStateKind kInnerStateKinds[] = {
    InnerStateKind::kMoment,      InnerStateKind::kVariance,    InnerStateKind::kGradientError,
    InnerStateKind::kWorkerError, InnerStateKind::kServerError, InnerStateKind::kUplinkError};

// "moment", "uplink_error".
absl::string_view NameOf(InnerStateKind kind);
std::optional<InnerStateKind> InnerStateKindOf(absl::string_view name);

// Whether the values belong to a rank: they can only be restored on the same rank of as many ranks.
inline bool IsOfRank(InnerStateKind kind) { return kind == InnerStateKind::kWorkerError; }
// Whether an optimizer can go on without it, with an error feedback of zero. Without one of the
// other kinds it must begin anew.
inline bool IsOptional(InnerStateKind kind) {
  return kind != InnerStateKind::kMoment && kind != InnerStateKind::kVariance;
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
  // slot.count values.
  std::vector<float> values;
};

// Values of the phase whose names begin so are not the optimizer's, but say how many tokens each
// source of the data has (0, 1 and so on), which decides the order of examples; and which ones, by
// a digest of some.
inline constexpr absl::string_view kDataTokensPrefix = "data_tokens/",
                                   kDataSamplePrefix = "data_sample/";

struct InnerState {
  // Counters of the optimizer, under names that the replica chooses. Equal on all ranks. Whole
  // numbers are below 2^53.
  std::vector<NamedValue> phase;
  std::vector<InnerStatePart> parts;
};

// A value of the phase. 0: the phase has no value of that name.
double PhaseValue(const std::vector<NamedValue>& phase, absl::string_view name);

// Part `index` of `state`, sized for `slot`, for the caller to fill. It reuses the memory of an
// earlier use: callers ask for parts in the same order each time, from index 0 on.
InnerStatePart& PartFor(const InnerStateSlot& slot, size_t index, InnerState& state);

}  // namespace longhaul
