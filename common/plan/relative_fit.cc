#include "common/plan/relative_fit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

namespace longhaul::plan {
namespace {

// Solves the normal equations of the terms in `chosen` by elimination. Empty: they depend on each
// other.
std::optional<FitRow> Solve(const std::vector<FitRow>& rows, unsigned chosen) {
  std::vector<int> terms;
  for (int t = 0; t < kFitTerms; ++t)
    if (chosen >> t & 1) terms.push_back(t);
  const int n = static_cast<int>(terms.size());
  std::vector<std::vector<double>> a(n, std::vector<double>(n + 1));
  for (const FitRow& row : rows) {
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
  FitRow result = {};
  for (int i = 0; i < n; ++i) result[terms[i]] = a[i][n] / a[i][i];
  return result;
}

}  // namespace

double SquaredError(const std::vector<FitRow>& rows, const FitRow& terms) {
  double sum = 0;
  for (const FitRow& row : rows) {
    const double error = std::inner_product(row.begin(), row.end(), terms.begin(), -1.0);
    sum += error * error;
  }
  return sum;
}

FitRow FitToOne(const std::vector<FitRow>& rows) {
  // With five terms all choices of those that are not zero are tried. More terms come later, so
  // that an equal fit with fewer stays.
  std::vector<unsigned> choices((1u << kFitTerms) - 1);
  std::iota(choices.begin(), choices.end(), 1u);
  std::stable_sort(choices.begin(), choices.end(),
                   [](unsigned a, unsigned b) { return std::popcount(a) < std::popcount(b); });
  FitRow best = {};
  double least = SquaredError(rows, best);
  for (const unsigned choice : choices) {
    const std::optional<FitRow> solved = Solve(rows, choice);
    if (!solved.has_value()) continue;
    if (std::any_of(solved->begin(), solved->end(), [](double term) { return term < 0; })) continue;
    const double error = SquaredError(rows, *solved);
    if (error >= least * (1 - 1e-9)) continue;
    least = error;
    best = *solved;
  }
  return best;
}

}  // namespace longhaul::plan
