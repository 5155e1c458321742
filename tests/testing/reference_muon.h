// Muon (muon_options.h) line by line in plain loops, for one matrix, all in double. Tests compare
// the fast implementation with it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/optim/muon_options.h"

namespace longhaul {

class ReferenceMuon {
 public:
  ReferenceMuon(const MuonOptions& options, int64_t rows, int64_t columns)
      : o_(options), rows_(rows), columns_(columns), m_(rows * columns) {}

  void Update(double learning_rate, absl::Span<float> w, absl::Span<const float> g);

 private:
  std::vector<double> Orthogonalize() const;

  const MuonOptions o_;
  const int64_t rows_, columns_;
  std::vector<double> m_;
};

}  // namespace longhaul
