// What the coordinator's benchmarks share: how they are asked for, results that must be there,
// memory of this process, distributions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul::benchmark {

// One of each, small, to see that it works; its figures say nothing.
struct Scale {
  bool smoke = false;
  // 0: as the figure asks.
  int ended = 0, live = 0, cycles = 0;
};

// Each prints its rows. They end the process where something does not work.
void BenchmarkSteps(const Scale& scale);
void BenchmarkJobs(const Scale& scale);
void BenchmarkCommits(const Scale& scale);
void BenchmarkPushes(const Scale& scale);
void BenchmarkCalls(const Scale& scale);

void OrEnd(const absl::Status& status, absl::string_view what);
template <typename T>
T OrEnd(absl::StatusOr<T> result, absl::string_view what) {
  OrEnd(result.status(), what);
  return *std::move(result);
}

// Resident memory of this process, free memory of the allocator given back first if `trim`.
int64_t ResidentBytes(bool trim);

// `part` in [0, 1]; 0 if there are no values.
double Quantile(std::vector<double> values, double part);

}  // namespace longhaul::benchmark
