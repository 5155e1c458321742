#include "common/plan/clock_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/status/status.h"

namespace longhaul::plan {
namespace {

constexpr int kTerms = 5;
using Row = std::array<double, kTerms>;

bool IsPositive(double value) { return std::isfinite(value) && value > 0; }

// What one unit of each term takes.
Row Factors(const Clocks& clocks) {
  return {1 / clocks.core, 1 / clocks.l1, 1 / clocks.l2, 1 / clocks.l3, 1};
}

// Solves the normal equations of the terms in `chosen` by elimination. Empty: they depend on each
// other.
std::optional<Row> Solve(const std::vector<Row>& rows, unsigned chosen) {
  std::vector<int> terms;
  for (int t = 0; t < kTerms; ++t)
    if (chosen >> t & 1) terms.push_back(t);
  const int n = static_cast<int>(terms.size());
  std::vector<std::vector<double>> a(n, std::vector<double>(n + 1));
  for (const Row& row : rows) {
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) a[i][j] += row[terms[i]] * row[terms[j]];
      a[i][n] += row[terms[i]];
    }
  }
  std::vector<double> scale(n);
  for (int i = 0; i < n; ++i) scale[i] = a[i][i];
  for (int i = 0; i < n; ++i) {
    int pivot = i;
    for (int k = i + 1; k < n; ++k)
      if (std::abs(a[k][i]) > std::abs(a[pivot][i])) pivot = k;
    std::swap(a[i], a[pivot]);
    if (std::abs(a[i][i]) <= 1e-12 * scale[i]) return std::nullopt;
    for (int k = 0; k < n; ++k) {
      if (k == i) continue;
      const double factor = a[k][i] / a[i][i];
      for (int j = i; j <= n; ++j) a[k][j] -= factor * a[i][j];
    }
  }
  Row result = {};
  for (int i = 0; i < n; ++i) result[terms[i]] = a[i][n] / a[i][i];
  return result;
}

double SquaredError(const std::vector<Row>& rows, const Row& terms) {
  double sum = 0;
  for (const Row& row : rows) {
    const double error = std::inner_product(row.begin(), row.end(), terms.begin(), -1.0);
    sum += error * error;
  }
  return sum;
}

}  // namespace

std::string_view ClockTermName(ClockTerm term) {
  constexpr std::string_view kNames[] = {"core", "l1", "l2", "l3", "memory"};
  return kNames[static_cast<int>(term)];
}

std::array<double, 5> ClockModel::Shares(const Clocks& clocks) const {
  Row shares = Factors(clocks);
  for (int t = 0; t < kTerms; ++t) shares[t] *= terms[t];
  return shares;
}

double ClockModel::Seconds(const Clocks& clocks) const {
  const Row shares = Shares(clocks);
  return std::accumulate(shares.begin(), shares.end(), 0.0);
}

ClockTerm ClockModel::Limit(const Clocks& clocks) const {
  const Row shares = Shares(clocks);
  return static_cast<ClockTerm>(std::max_element(shares.begin(), shares.end()) - shares.begin());
}

std::optional<double> ClockModel::CoreStopsPaying(const Clocks& clocks) const {
  const Row shares = Shares(clocks);
  const double rest = std::accumulate(shares.begin() + 1, shares.end(), 0.0);
  if (terms[0] == 0) return 0;
  if (rest == 0) return std::nullopt;
  // core / f = (core / f + rest) / 10
  return terms[0] * 9 / rest;
}

absl::StatusOr<ClockModel> FitClocks(absl::Span<const ClockSample> samples) {
  if (samples.empty()) return absl::InvalidArgumentError("there are no times to fit");
  std::vector<Row> rows;
  for (const ClockSample& sample : samples) {
    const Clocks& c = sample.clocks;
    if (!IsPositive(c.core) || !IsPositive(c.l1) || !IsPositive(c.l2) || !IsPositive(c.l3) ||
        !IsPositive(sample.seconds))
      return absl::InvalidArgumentError("clocks and times must be positive");
    // Relative to the time, which is 1 then.
    rows.push_back(Factors(c));
    for (double& value : rows.back()) value /= sample.seconds;
  }
  // With five terms all choices of those that are not zero are tried. More terms come later, so
  // that an equal fit with fewer stays.
  std::vector<unsigned> choices((1u << kTerms) - 1);
  std::iota(choices.begin(), choices.end(), 1u);
  std::stable_sort(choices.begin(), choices.end(),
                   [](unsigned a, unsigned b) { return std::popcount(a) < std::popcount(b); });
  ClockModel best;
  double least = SquaredError(rows, best.terms);
  for (const unsigned choice : choices) {
    const std::optional<Row> solved = Solve(rows, choice);
    if (!solved.has_value()) continue;
    if (std::any_of(solved->begin(), solved->end(), [](double term) { return term < 0; })) continue;
    const double error = SquaredError(rows, *solved);
    if (error >= least * (1 - 1e-9)) continue;
    least = error;
    best.terms = *solved;
  }
  return best;
}

absl::StatusOr<ClockModel> FromCounters(const Counters& counters, const AccessCost& cost) {
  const double counts[] = {counters.l1i, counters.l1d, counters.l2_accesses, counters.l3_accesses,
                           counters.l3_misses};
  for (const double count : counts) {
    if (!std::isfinite(count) || count < 0)
      return absl::InvalidArgumentError("counts must not be negative");
  }
  if (!IsPositive(counters.ghz) || !IsPositive(counters.seconds))
    return absl::InvalidArgumentError("the clock and the time must be positive");
  // Millions of accesses of so many cycles are thousandths of 10^9 cycles.
  ClockModel model;
  model.terms = {0, (cost.l1i * counters.l1i + cost.l1d * counters.l1d) / 1e3,
                 cost.l2 * counters.l2_accesses / 1e3, cost.l3 * counters.l3_accesses / 1e3,
                 cost.memory_seconds * counters.l3_misses * 1e6};
  const Clocks same{counters.ghz, counters.ghz, counters.ghz, counters.ghz};
  model.terms[0] = std::max(0.0, (counters.seconds - model.Seconds(same)) * counters.ghz);
  return model;
}

double FetchBoundSeconds(double l1i_millions, double l1_ghz) {
  constexpr double kFetchCycles = 3;
  return kFetchCycles * l1i_millions / 1e3 / l1_ghz;
}

}  // namespace longhaul::plan
