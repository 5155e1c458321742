#include "coordinator/outer/sum_of_squares.h"

#include <array>
#include <cstddef>

namespace longhaul {

double SumOfSquares(absl::Span<const float> values) {
  constexpr size_t kLanes = 16;
  std::array<double, kLanes> lanes{};
  const size_t whole = values.size() - values.size() % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double x = values[i + lane];
      lanes[lane] += x * x;
    }
  }
  for (size_t i = whole; i < values.size(); ++i) {
    const double x = values[i];
    lanes[i - whole] += x * x;
  }
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

}  // namespace longhaul
