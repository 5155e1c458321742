// Measures what a node does with this product's own kernels, for forecasts (HostFigures in
// plan.proto).
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "longhaul/v1/plan.pb.h"

namespace longhaul {

struct HostMeasureOptions {
  // As LONGHAUL_VERSION.
  std::string version;
  // By the monotonic clock: what is not measured by then is left out. Infinite: nothing is.
  absl::Duration until = absl::InfiniteDuration();
  // Of a rank, and ranks of the node.
  int threads = 1, ranks = 1;
  // Bytes per second into one of two ranks that reduce together, measured for about the time given.
  // Null: it is not measured.
  std::function<absl::StatusOr<double>(absl::Duration)> exchange;
};

// What the figures of a machine say that they are for.
std::string MachineOf(int threads, int ranks);

// Blocks for about two seconds, and uses up to `threads` times `ranks` threads. Errors of
// `exchange` leave out what it measures.
//   FAILED_PRECONDITION  too little memory is left to measure anything
//   DEADLINE_EXCEEDED    the time was over before anything was measured
absl::StatusOr<v1::HostFigures> MeasureHost(const HostMeasureOptions& options);

// The largest working set of a sweep: several times the last cache, and a small part of the memory
// that is left. FAILED_PRECONDITION: that is too little.
absl::StatusOr<int64_t> LargestWorkingSet(int threads);

}  // namespace longhaul
