#include <algorithm>
#include <vector>

#include "common/codec/kernels/dense_scalar.h"
#include "common/codec/kernels/topk2_kernels.h"

namespace longhaul::kernels {
namespace {

uint32_t Load(const float* values, const float* minus, const float* error, float decay,
              int64_t blocks, float* u) {
  uint32_t max = 0;
  for (int64_t i = 0; i < blocks * kBlockElements; ++i) {
    const float x = InputAt(values, minus, error, decay, i);
    u[i] = x;
    max = std::max(max, Magnitude(x));
  }
  return max;
}

void Select(const float* u, int64_t blocks, int64_t keep, uint16_t* positions) {
  std::vector<uint16_t> order(blocks * kBlockElements);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint16_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint16_t a, uint16_t b) { return Magnitude(u[a]) > Magnitude(u[b]); });
  std::copy_n(order.begin(), keep, positions);
  std::sort(positions, positions + keep);
}

double EnergyOf(const float* block) {
  const uint32_t max = scalar::MagnitudeMax(block);
  return Energy(SignalEnergy(PlainBlock{block}, EnergyFactor(max)), max);
}

}  // namespace

Topk2Kernels Topk2Scalar() { return {Load, Select, EnergyOf}; }

}  // namespace longhaul::kernels
