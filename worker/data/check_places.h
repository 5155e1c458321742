// Which parts of large data are looked at when it is opened. All of it would take minutes, at each
// start of a rank. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul {

struct CheckedRun {
  int64_t first = 0, count = 0;
};

// Of `count` things: all of them in one run, if they are at most kCheckedPlaces * `run`; otherwise
// kCheckedPlaces runs of `run` things, evenly spaced, from the first thing to the last.
inline constexpr int64_t kCheckedPlaces = 64;
inline std::vector<CheckedRun> CheckedRuns(int64_t count, int64_t run) {
  if (count / kCheckedPlaces < run) return {{0, count}};
  std::vector<CheckedRun> runs;
  for (int64_t i = 0; i < kCheckedPlaces; ++i) {
    const auto first =
        static_cast<int64_t>(static_cast<__int128>(count - run) * i / (kCheckedPlaces - 1));
    runs.push_back({first, run});
  }
  return runs;
}

}  // namespace longhaul
