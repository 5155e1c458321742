// How much faster a workload runs with faster cores and caches. After "Potential and Limitation of
// High-Frequency Cores and Caches" (arXiv 2408.03308): core, L1, L2 and L3 have clocks of their
// own, the memory's is fixed.
//
//   in order      T = core / f_core + l1 / f_L1 + l2 / f_L2 + l3 / f_L3 + memory
//   out of order  T = P(R(core / f_core, l1 / f_L1), l2 / f_L2) + l3 / f_L3 + memory
//                 R(a, b) = (a^2 + b^2)^(1/2), P(a, b) = (a^1.2 + b^1.2)^(1/1.2)
//
// with all terms >= 0. A core that waits for each access adds up its waits; one that goes on
// meanwhile hides a part of the shorter ones. Both are equal where all clocks change together. The
// terms are fitted to times at two clocks or more, or follow from counters of one run. Pure.
// Clocks in GHz, times in seconds, terms of clocks in 10^9 cycles.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace longhaul::plan {

struct Clocks {
  double core = 0, l1 = 0, l2 = 0, l3 = 0;
};

enum class ClockTerm { kCore, kL1, kL2, kL3, kMemory };
// core, l1, l2, l3, memory.
std::string_view ClockTermName(ClockTerm term);

enum class CoreKind { kInOrder, kOutOfOrder };

struct ClockModel {
  std::array<double, 5> terms = {};
  CoreKind core = CoreKind::kInOrder;

  // What each term adds to the time. Their sum is the time.
  std::array<double, 5> Shares(const Clocks& clocks) const;
  double Seconds(const Clocks& clocks) const;
  // The term that takes the longest.
  ClockTerm Limit(const Clocks& clocks) const;
  // The core's clock at which its share is a tenth of the time, with these clocks of the caches: a
  // faster core stops paying there. Zero: the share is less at any clock. Empty: the core's term is
  // all there is.
  std::optional<double> CoreStopsPaying(const Clocks& clocks) const;
  // Beside the core's, the term that takes the longest at that clock. Empty: there is none.
  std::optional<ClockTerm> CoreStoppedBy(const Clocks& clocks) const;
};

struct ClockSample {
  Clocks clocks;
  double seconds = 0;
};

// Non-negative least squares of the relative error. INVALID_ARGUMENT: no samples, or values that
// are not positive and finite.
absl::StatusOr<ClockModel> FitClocks(absl::Span<const ClockSample> samples,
                                     CoreKind core = CoreKind::kInOrder);

// Of one run with all clocks equal. Counts in millions.
struct Counters {
  double ghz = 0, seconds = 0;
  double instructions = 0;
  double l1i = 0, l1d = 0, l2_accesses = 0, l3_accesses = 0, l3_misses = 0;

  double MissesPerThousandInstructions() const;
};

// What a core waits for an access: constants that were fitted over eight programs.
struct AccessCost {
  CoreKind core;
  // Instructions of a cycle at most.
  double width;
  // Cycles of the cache's clock. That of L2 is of 10 accesses per 1,000 instructions, and falls
  // with their number to the power `l2_falls`: accesses that are close together overlap.
  double l1i, l1d, l2, l3;
  double l2_falls;
  double memory_seconds;
};
// gem5's O3 core (CryoCore) and its Minor core. Fitted by tests/benchmark/plan/clock_constants.py:
// leaving a program out, times of the other clocks are within 6 % and 13 % in the median.
inline constexpr AccessCost kOutOfOrder = {
    CoreKind::kOutOfOrder, 4, 1.537, 0.145, 6.475, 3.346, 0.469, 22e-9};
inline constexpr AccessCost kInOrder = {
    CoreKind::kInOrder, 2, 0.733, 1.623, 8.729, 29.135, 0, 30e-9};

// The core has what is left of the time. If less is left than its instructions take, the waits are
// shorter than `cost` says, all by the same factor. INVALID_ARGUMENT: values that are negative or
// not finite, a clock or time that is not positive.
absl::StatusOr<ClockModel> FromCounters(const Counters& counters, const AccessCost& cost);

// The least time of a core with one instruction fetch in flight, of three cycles of the L1 cache.
double FetchBoundSeconds(double l1i_millions, double l1_ghz);

}  // namespace longhaul::plan
