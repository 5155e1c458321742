#include "worker/optim/squared_norm.h"

#include <cstring>

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

double SquaredNorm(absl::Span<const float> values) {
  double sum = 0;
  size_t i = 0;
  for (; i + kBlock <= values.size(); i += kBlock) sum += BlockSum(values.data() + i);
  if (i == values.size()) return sum;
  float last[kBlock] = {};  // A short block is filled up with zeros.
  std::memcpy(last, values.data() + i, (values.size() - i) * sizeof(float));
  return sum + BlockSum(last);
}

}  // namespace longhaul
