#include "coordinator/outer/sgd.h"

#include "coordinator/outer/sum_of_squares.h"

namespace longhaul {

double Sgd::Step(absl::Span<float> gradient, absl::Span<float>) const {
  const double squares = SumOfSquares(gradient);
  for (float& d : gradient) d *= lr_;
  return squares;
}

}  // namespace longhaul
