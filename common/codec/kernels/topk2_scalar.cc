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
    float x = values[i];
    if (minus != nullptr) x = x - minus[i];
    if (error != nullptr) {
      const float again = decay * error[i];
      x = x + again;
    }
    u[i] = x;
    max = std::max(max, scalar::Magnitude(x));
  }
  return max;
}

void Select(const float* u, int64_t blocks, int64_t keep, uint16_t* positions) {
  std::vector<uint16_t> order(blocks * kBlockElements);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint16_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) {
    return scalar::Magnitude(u[a]) > scalar::Magnitude(u[b]);
  });
  std::copy_n(order.begin(), keep, positions);
  std::sort(positions, positions + keep);
}

double EnergyOf(const float* block) {
  const uint32_t max = scalar::MagnitudeMax(block);
  return Energy(scalar::SignalEnergy(block, EnergyFactor(max)), max);
}

}  // namespace

Topk2Kernels Topk2Scalar() { return {Load, Select, EnergyOf}; }

}  // namespace longhaul::kernels
