// How much faster a workload runs with faster cores and caches. After "Potential and Limitation of
// High-Frequency Cores and Caches" (arXiv 2408.03308): core, L1, L2 and L3 have clocks of their
// own, the memory's is fixed.
//
//   T = core / f_core + l1 / f_L1 + l2 / f_L2 + l3 / f_L3 + memory,   all terms >= 0
//
// The terms are fitted to times at two clocks or more, or follow from counters of one run. Pure.
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

struct ClockModel {
  std::array<double, 5> terms = {};

  // The time that each term takes.
  std::array<double, 5> Shares(const Clocks& clocks) const;
  double Seconds(const Clocks& clocks) const;
  // The term that takes the longest.
  ClockTerm Limit(const Clocks& clocks) const;
  // The core's clock at which its term is a tenth of the time, with these clocks of the caches: a
  // faster core stops paying there. Zero: the core's term is less at any clock. Empty: the core's
  // term is all there is.
  std::optional<double> CoreStopsPaying(const Clocks& clocks) const;
};

struct ClockSample {
  Clocks clocks;
  double seconds = 0;
};

// Non-negative least squares of the relative error. INVALID_ARGUMENT: no samples, or values that
// are not positive and finite.
absl::StatusOr<ClockModel> FitClocks(absl::Span<const ClockSample> samples);

// Of one run with all clocks equal. Counts in millions.
struct Counters {
  double ghz = 0, seconds = 0;
  double l1i = 0, l1d = 0, l2_accesses = 0, l3_accesses = 0, l3_misses = 0;
};

// What a core waits for an access: constants that were fitted over eight programs.
struct AccessCost {
  // Cycles of the cache's clock.
  double l1i, l1d, l2, l3;
  double memory_seconds;
};
// gem5's O3 core (CryoCore). Leaving a workload out, times are within 8.4 % in the median.
inline constexpr AccessCost kOutOfOrder = {1.25, 0.11, 3.46, 3.28, 22.7e-9};

// The core has what is left of the time. INVALID_ARGUMENT: values that are negative or not finite,
// a clock or time that is not positive.
absl::StatusOr<ClockModel> FromCounters(const Counters& counters, const AccessCost& cost);

// The least time of a core with one instruction fetch in flight, of three cycles of the L1 cache.
double FetchBoundSeconds(double l1i_millions, double l1_ghz);

}  // namespace longhaul::plan
