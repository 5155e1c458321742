// The mean of the classes' F1 scores.
#pragma once

#include <cstddef>

#include "absl/types/span.h"

namespace longhaul {

// `counts`: for each class how many examples have it, then how many are predicted to, then how many
// of these do. F1 = 2 right / (labels + predictions); classes with neither do not count. 0 if none
// counts.
inline double MacroF1(absl::Span<const double> counts) {
  const size_t classes = counts.size() / 3;
  double sum = 0, seen = 0;
  for (size_t c = 0; c < classes; ++c) {
    const double of_class = counts[c] + counts[classes + c];
    if (of_class == 0) continue;
    sum += 2 * counts[2 * classes + c] / of_class;
    ++seen;
  }
  return seen > 0 ? sum / seen : 0;
}

}  // namespace longhaul
