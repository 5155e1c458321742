#include "coordinator/outer/agreement.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

void AgreementSample::Add(const AgreementSample& other) {
  mean_energy += other.mean_energy;
  energies.resize(std::max(energies.size(), other.energies.size()));
  for (size_t m = 0; m < other.energies.size(); ++m) energies[m] += other.energies[m];
}

// ||D||^2 = sum |u_m|^2 + sum_{i != j} <u_i, u_j>. So the pairs need not be computed.
std::optional<double> MeanCosine(const AgreementSample& sample) {
  if (sample.energies.size() < 2) return std::nullopt;
  double squares = 0, norms = 0;
  for (const double energy : sample.energies) {
    squares += energy;
    norms += std::sqrt(energy);
  }
  const double pairs = norms * norms - squares;
  if (!(pairs > 0)) return std::nullopt;
  return std::clamp((sample.mean_energy - squares) / pairs, -1.0, 1.0);
}

}  // namespace longhaul
