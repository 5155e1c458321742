// How large each contribution to a tile is, and how much it agrees with the others. Norms are those
// of all elements, so that one bad value shows. What belongs to cosines is measured on a sample, an
// eighth of the elements (rows of an embedding that are not used have none); of a tile that is not
// whole, on all.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/outer/weighted_mean.h"

namespace longhaul {

// Sums over contributions u_m. Those of several tiles can be added.
struct TileMeasure {
  // ||u_m||^2.
  std::vector<double> energies;
  // On the sample: ||S||^2, where S is the sum of the u_m; ||u_m||^2; ||S - u_m||^2.
  double sum_energy = 0;
  std::vector<double> sample_energies, rest_energies;

  void Add(const TileMeasure& other);
  // The cosine of u_m with the other contributions, and that of the others with each other: means
  // over pairs, each pair weighted by the product of its norms. 0 if it is not defined.
  double Cosine(size_t contribution) const;
  double CosineOfOthers(size_t contribution) const;
};

// Decodes the contributions once, and the sample twice. Memory besides the arguments: 48 KiB.
// Errors: as WeightedMean::Mean.
absl::StatusOr<TileMeasure> MeasureTile(const WeightedMean& mean);

}  // namespace longhaul
