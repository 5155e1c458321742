#include "worker/optim/squared_norm.h"

#include <cstring>
#include <vector>

namespace longhaul {
namespace {

constexpr size_t kLanes = 8, kBlock = 128;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

double Fold(const Doubles& lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

double BlockSum(const float* values) {
  Doubles sum = {};
  for (size_t i = 0; i < kBlock; i += kLanes) {
    Floats lanes;
    std::memcpy(&lanes, values + i, sizeof(lanes));
    const Doubles wide = __builtin_convertvector(lanes, Doubles);
    sum += wide * wide;
  }
  return Fold(sum);
}

}  // namespace

double SquaredNorm(absl::Span<const float> values, ThreadTeam* team) {
  const size_t whole = values.size() - values.size() % kBlock;
  double sum = 0;
  if (team == nullptr || team->threads() == 1) {
    for (size_t i = 0; i < whole; i += kBlock) sum += BlockSum(values.data() + i);
  } else {
    // The threads compute the sums of the blocks. One thread then adds these in the blocks' order.
    std::vector<double> sums(whole / kBlock);
    team->ForParts(static_cast<int64_t>(whole), kBlock, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; i += kBlock) sums[i / kBlock] = BlockSum(values.data() + i);
    });
    for (const double block : sums) sum += block;
  }
  if (whole == values.size()) return sum;
  // A short last block is filled up with zeros.
  float last[kBlock] = {};
  std::memcpy(last, values.data() + whole, (values.size() - whole) * sizeof(float));
  return sum + BlockSum(last);
}

}  // namespace longhaul
