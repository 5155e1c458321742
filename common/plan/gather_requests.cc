#include "common/plan/gather_requests.h"

#include <algorithm>
#include <cstdint>

namespace longhaul::plan {
namespace {

// Elements of a line, and threads of a warp.
constexpr int64_t kLine = 32;

int64_t LinesOf(int64_t first, int64_t elements) {
  return (first + elements - 1) / kLine - first / kLine + 1;
}

}  // namespace

double GatherRequests(int dim, bool aligned) {
  int64_t lines = 0;
  // The beginnings of rows repeat after so many rows.
  for (int64_t row = 0; row < kLine; ++row) {
    const int64_t begin = row * dim;
    if (aligned) {
      lines += LinesOf(begin, dim);
      continue;
    }
    for (int64_t done = 0; done < dim; done += kLine)
      lines += LinesOf(begin + done, std::min<int64_t>(kLine, dim - done));
  }
  return static_cast<double>(lines) / kLine;
}

}  // namespace longhaul::plan
