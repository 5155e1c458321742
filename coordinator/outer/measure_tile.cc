#include "coordinator/outer/measure_tile.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/status_macros.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/outer/sum_of_squares.h"

namespace longhaul {
namespace {

// Both are whole blocks.
constexpr int64_t kMeasuredAtOnce = 4096, kSampledOfThese = 512;

void AddAt(size_t index, double value, std::vector<double>* sums) {
  sums->resize(std::max(sums->size(), index + 1));
  (*sums)[index] += value;
}

void AddAll(const std::vector<double>& values, std::vector<double>* sums) {
  for (size_t i = 0; i < values.size(); ++i) AddAt(i, values[i], sums);
}

}  // namespace

void TileMeasure::Add(const TileMeasure& other) {
  AddAll(other.energies, &energies);
  sum_energy += other.sum_energy;
  AddAll(other.sample_energies, &sample_energies);
  AddAll(other.rest_energies, &rest_energies);
}

// <u, S - u> = (||S||^2 - ||u||^2 - ||S - u||^2) / 2.
double TileMeasure::Cosine(size_t m) const {
  double norms = 0;
  for (const double energy : sample_energies) norms += std::sqrt(energy);
  const double own = std::sqrt(sample_energies[m]), products = own * (norms - own);
  if (!(products > 0)) return 0;
  const double inner = (sum_energy - sample_energies[m] - rest_energies[m]) / 2;
  return std::clamp(inner / products, -1.0, 1.0);
}

double TileMeasure::CosineOfOthers(size_t m) const {
  double norms = 0, squares = 0;
  for (size_t i = 0; i < sample_energies.size(); ++i) {
    if (i == m) continue;
    norms += std::sqrt(sample_energies[i]);
    squares += sample_energies[i];
  }
  const double products = norms * norms - squares;
  if (!(products > 0)) return 0;
  return std::clamp((rest_energies[m] - squares) / products, -1.0, 1.0);
}

absl::StatusOr<TileMeasure> MeasureTile(const WeightedMean& mean) {
  alignas(64) std::array<float, kMeasuredAtOnce> buffer, sum, rest;
  TileMeasure measure;
  const bool all = mean.elements() < kTileElements;
  for (int64_t first = 0; first < mean.elements();) {
    // Of a whole tile a sample from everywhere; of a smaller one everything.
    const bool sampled = all || first % kMeasuredAtOnce == 0;
    const int64_t end = all       ? first + kMeasuredAtOnce
                        : sampled ? first + kSampledOfThese
                                  : first - first % kMeasuredAtOnce + kMeasuredAtOnce;
    const int64_t count = std::min(end, mean.elements()) - first;
    const auto total = absl::MakeSpan(sum).first(count),
               without = absl::MakeSpan(rest).first(count);
    if (sampled) {
      LH_RETURN_IF_ERROR(mean.Mean(first, total));
      measure.sum_energy += SumOfSquares(total);
    }
    const auto add = [&](int m, absl::Span<const float> values) {
      const double energy = SumOfSquares(values);
      AddAt(m, energy, &measure.energies);
      if (!sampled) return;
      AddAt(m, energy, &measure.sample_energies);
      for (int64_t i = 0; i < count; ++i) without[i] = total[i] - values[i];
      AddAt(m, SumOfSquares(without), &measure.rest_energies);
    };
    LH_RETURN_IF_ERROR(mean.ForEach(first, absl::MakeSpan(buffer).first(count), add));
    first += count;
  }
  return measure;
}

}  // namespace longhaul
