// What every benchmark prints: one row of JSON a line, {name, ours, reference, ratio, target, unit,
// note}; tests/benchmark/run.sh collects them. And the way figures are taken: ours and the
// reference alternate in one run, the medians are compared, so that a noisy machine disturbs both.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::benchmark {

struct Row {
  std::string name;
  double ours = 0, reference = 0;
  // ours / reference of rates, reference / ours of times: larger is better, `target` is the least.
  double ratio = 0;
  std::optional<double> target;
  std::string unit, note;
};

// To stdout, flushed.
void Print(const Row& row);

double Median(std::vector<double> values);

// Seconds on the monotonic clock.
double Seconds(const std::function<void()>& work);

// Medians of the seconds of both, run in turn.
struct Pair {
  double ours = 0, reference = 0;
};
Pair Alternate(int repetitions, const std::function<void()>& ours,
               const std::function<void()>& reference);

}  // namespace longhaul::benchmark
