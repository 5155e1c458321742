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
// Matrices with a shorter side are iterated in float32 in any case: it costs next to nothing, and one
// nearly singular direction in sixteen, which bf16 gets wrong, moves the whole update by 3 %.
inline constexpr int64_t kMuonNarrowSideMin = 64;

enum class MuonScaling {
  kSpectral,    // sqrt(rows / columns): a step of this spectral norm whatever the shape.
  kMatchAdamW,  // 0.2 sqrt(max(rows, columns)): steps as large as AdamW's (arXiv 2502.16982).
};
// What the matrix products of the iterations are computed in; sums always in float32.
enum class MuonPrecision { kBfloat16, kFloat32 };

struct MuonOptions {
  double momentum = 0.9;
  double weight_decay = 0;  // As AdamW's.
  MuonScaling scaling = MuonScaling::kSpectral;
  MuonPrecision iterations = MuonPrecision::kBfloat16;
  // Of what is no hidden matrix, whose learning rate is this times that of Muon.
  AdamWOptions adamw;
  double adamw_rate = 1;
};

inline double MuonScale(MuonScaling scaling, int64_t rows, int64_t columns) {
  if (scaling == MuonScaling::kSpectral)
    return std::sqrt(static_cast<double>(rows) / static_cast<double>(columns));
  return 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
}

}  // namespace longhaul
