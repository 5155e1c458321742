#include "common/plan/gather_requests.h"

#include <cstdint>

#include "common/graph/gather_index.h"

namespace longhaul::plan {

double GatherRequests(int dim, bool aligned) {
  constexpr int kElement = 4;
  const GatherShape shape{
      .row_bytes = int64_t{dim} * kElement, .unit = kElement, .aligned = aligned};
  // The beginnings of rows repeat after so many rows.
  constexpr int64_t kRows = kGatherLine / kElement;
  int64_t lines = 0;
  for (int64_t row = 0; row < kRows; ++row)
    lines += GatherLines(shape, static_cast<uint64_t>(row * shape.row_bytes));
  return static_cast<double>(lines) / kRows;
}

}  // namespace longhaul::plan
