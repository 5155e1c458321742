// How long a kernel takes for an element, by the memory that its working set lies in: the core with
// its first cache, the second and third cache, and memory each add a term. After the host kernels
// of "Potential and Limitation of High-Frequency Cores and Caches" (arXiv 2408.03308):
//
//   t(W) = core + l2 m(W, L1) + l3 m(W, L2) + memory m(W, L3)
//
// m is the part that does not fit a cache: 0 for half of its size, 1 for twice of it, and even in
// between on a logarithmic scale. The terms, none negative, are fitted to times over working sets,
// and so are the sizes of the caches that count: others may use them, too.
//
// Cores load ahead while they compute, so the term of memory is only what they still wait for. How
// long memory is busy does not show in times; it follows from its bandwidth, and no clock makes a
// kernel faster than that. Pure. Bytes, seconds.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace longhaul::plan {

enum class MemoryLevel { kCore, kL2, kL3, kMemory };
// core, l2, l3, memory.
std::string_view MemoryLevelName(MemoryLevel level);

struct LevelModel {
  // By level, of an element.
  std::array<double, 4> terms = {};
  // Of the first, second and third cache, with the caches of all threads. Fewer: there are no more.
  std::vector<double> caches;
  // How long memory is busy with an element that lies in none of the caches: its bytes by the
  // bandwidth. 0: not known.
  double transfer_term = 0;

  // What each level adds with this working set. Their sum is the time.
  std::array<double, 4> Shares(double working_set) const;
  double Seconds(double working_set) const;
  // How long memory is busy, at most all the time.
  double Transfer(double working_set) const;
  // The core if it has at least half of the time and memory is not busy for longer; else the other
  // level that takes most.
  MemoryLevel Limit(double working_set) const;

  // How many times faster with a clock of the core and its own caches (L1, L2) of so many times.
  double WithClock(double working_set, double times) const;
  // The clock, in times of today's, at which the core and its caches have a tenth of the time, or
  // memory is busy all the time: more does not pay. Infinite: the rest takes nothing. 0: no clock
  // pays.
  double ClockStopsPaying(double working_set) const;
  // How many times faster with so many times the memory's bandwidth: transfers are as much shorter,
  // and waits for single accesses are not.
  double WithBandwidth(double working_set, double times) const;
};

struct LevelSample {
  double working_set = 0;
  // Of an element.
  double seconds = 0;
};

// `caches`: their sizes as the system says, at most three. INVALID_ARGUMENT: no samples, or values
// that are not positive and finite.
absl::StatusOr<LevelModel> FitLevels(absl::Span<const LevelSample> samples,
                                     absl::Span<const double> caches);

}  // namespace longhaul::plan
