// How much the pools' outer gradients agree, measured on a sample of the elements (the first few
// thousand of each tile), since measuring all would decode every contribution twice.
#pragma once

#include <optional>
#include <vector>

namespace longhaul {

// Sums over the sample. Those of several tiles can be added.
struct AgreementSample {
  // ||D||^2, where D is the sum of the u_m.
  double mean_energy = 0;
  // ||u_m||^2 of each contribution u_m = share_m * delta_m.
  std::vector<double> energies;

  void Add(const AgreementSample& other);
};

// The mean of the pairwise cosines of the contributions. Each pair is weighted by the product of
// its norms:
//   sum_{i != j} <u_i, u_j> / sum_{i != j} |u_i| |u_j|
// 1: all point in the same direction. 0: they have nothing in common. Empty for fewer than two
// contributions, and if all are zero.
std::optional<double> MeanCosine(const AgreementSample& sample);

}  // namespace longhaul
