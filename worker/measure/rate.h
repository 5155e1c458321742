// How fast threads of this machine are at a kernel. Each works on memory of its own.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/time/time.h"

namespace longhaul {

// The work of one thread, over memory that `run` owns: of a part of it, in turn.
struct KernelRun {
  // Of a run.
  int64_t elements = 0;
  std::function<void()> run;
};

// Elements per second of all threads together. Calls make() on each of them, runs it once, and then
// for about `budget`, all at the same time; a thread's rate is that of its faster runs (the first
// quartile), since others on the machine only add to a time. Blocks for longer than `budget`:
// making and the first run come before.
double RateOf(const std::function<KernelRun()>& make, int threads, absl::Duration budget);

}  // namespace longhaul
