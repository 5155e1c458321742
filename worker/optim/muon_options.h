// Settings of Muon (Jordan et al., 2024) as MuLoCo runs it inside DiLoCo (arXiv 2505.23725):
//   m <- mu m + g
//   X  = m, transposed if it has more rows than columns;  X <- X / (||X||_F + 1e-7)
//   for (a, b, c) in kMuonSteps:  A = X X^T ;  X <- a X + (b A + c A A) X
//   W <- (1 - lr decay) W - lr scale X^(T)
// X approaches U V^T of m's singular value decomposition. Pure values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "worker/optim/adamw_options.h"

namespace longhaul {

struct MuonStep {
  double a, b, c;
};
inline constexpr MuonStep kMuonSteps[] = {{4.0848, -6.8946, 2.9270},
                                          {3.9505, -6.3029, 2.6377},
                                          {3.7418, -5.5913, 2.3037},
                                          {2.8769, -3.1427, 1.2046},
                                          {2.8366, -3.0525, 1.2012}};
inline constexpr double kMuonEps = 1e-7;
// Matrices whose shorter side is below this are iterated in float32 whatever the setting. It costs
// little. With 16 directions, one that is nearly singular and comes out wrong in bf16 changes the
// update by 3 %.
inline constexpr int64_t kMuonNarrowSideMin = 64;

enum class MuonScaling {
  // sqrt(rows / columns).
  kSpectral,
  // 0.2 sqrt(max(rows, columns)): the root mean square of a step is like AdamW's (arXiv
  // 2502.16982).
  kMatchAdamW,
};
// The type of the factors in the iterations' matrix products. Sums are in float32.
enum class MuonPrecision { kBfloat16, kFloat32 };

struct MuonOptions {
  double momentum = 0.9;
  // As that of AdamW.
  double weight_decay = 0;
  MuonScaling scaling = MuonScaling::kSpectral;
  MuonPrecision iterations = MuonPrecision::kBfloat16;
  // For the parameters that are not hidden matrices. Their learning rate is `adamw_rate` times that
  // of Muon.
  AdamWOptions adamw;
  double adamw_rate = 1;
};

inline double MuonScale(MuonScaling scaling, int64_t rows, int64_t columns) {
  if (scaling == MuonScaling::kSpectral)
    return std::sqrt(static_cast<double>(rows) / static_cast<double>(columns));
  return 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
}

}  // namespace longhaul
