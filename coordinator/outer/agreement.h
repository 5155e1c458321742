// How much the pools' outer gradients agree, measured on a sample of the elements (the first few
// thousand of each tile), since measuring all would decode every contribution twice.
#pragma once

#include <optional>
#include <vector>

namespace longhaul {

// Sums over the sample; they add up over tiles.
struct AgreementSample {
  double mean_energy = 0;        // ||D||^2, D = sum of the u_m.
  std::vector<double> energies;  // ||u_m||^2 of each contribution u_m = share_m * delta_m.

  void Add(const AgreementSample& other);
};

// The mean of the pairwise cosines of the contributions, each pair weighed by the product of its norms:
//   sum_{i != j} <u_i, u_j> / sum_{i != j} |u_i| |u_j|
// 1: all point the same way; 0: they have nothing in common. Nothing of fewer than two, or of zeros.
std::optional<double> MeanCosine(const AgreementSample& sample);

}  // namespace longhaul
