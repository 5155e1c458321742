// cluster_search: runs the simulated cluster for many seeds, and stops at the first that breaks an
// invariant.
//   cluster_search --seeds 10000 --from 1
//   cluster_search --from 4711 --seeds 1 --trace
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "tests/simulation/cluster.h"

int main(int argc, char** argv) {
  uint64_t from = 1, seeds = 2000;
  bool trace = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const bool value = i + 1 < argc;
    if (flag == "--trace") {
      trace = true;
    } else if (flag == "--seeds" && value && absl::SimpleAtoi(argv[i + 1], &seeds)) {
      ++i;
    } else if (flag == "--from" && value && absl::SimpleAtoi(argv[i + 1], &from)) {
      ++i;
    } else {
      absl::FPrintF(stderr, "usage: %s [--from SEED] [--seeds COUNT] [--trace]\n", argv[0]);
      return 2;
    }
  }
  int64_t events = 0, commits = 0, completed = 0;
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    const auto result = longhaul::simulation::RunCluster({.seed = seed, .trace = trace});
    events += result.events;
    commits += result.commits;
    completed += result.jobs_completed;
    if (!result.violation.has_value()) continue;
    absl::PrintF("seed %d: %s\n  %s\nsee it: %s --from %d --seeds 1 --trace\n", seed,
                 *result.violation, result.summary, argv[0], seed);
    return 1;
  }
  absl::PrintF("%d seeds: no violation (%d events, %d commits, %d jobs completed)\n", seeds, events,
               commits, completed);
  return 0;
}
