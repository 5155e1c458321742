#include <algorithm>
#include <vector>

#include "common/codec/kernels/dense_scalar.h"
#include "common/codec/kernels/topk2_kernels.h"

namespace longhaul::kernels {
namespace {

uint32_t Load(const float* values, const float* minus, const float* error, float decay,
              int64_t blocks, float* u, PartMaxima& maxima) {
  uint32_t max = 0;
  for (int64_t i = 0; i < blocks * kBlockElements; ++i) {
    const float x = InputAt(values, minus, error, decay, i);
    u[i] = x;
    const uint32_t magnitude = Magnitude(x);
    int32_t& part = maxima.bits[i % kBlockElements];
    part = std::max(part, static_cast<int32_t>(magnitude));
    max = std::max(max, magnitude);
  }
  return max;
}

void Select(const float* u, int64_t blocks, int64_t keep, const PartMaxima&, const float*,
            uint16_t* positions) {
  std::vector<uint16_t> order(blocks * kBlockElements);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint16_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint16_t a, uint16_t b) { return Magnitude(u[a]) > Magnitude(u[b]); });
  std::copy_n(order.begin(), keep, positions);
  std::sort(positions, positions + keep);
}

void Code(const float* kept, const uint16_t* positions, int count, uint32_t magnitude_max,
          CodedChunk& coded) {
  topk2::KeptLevels is_high;
  coded.levels = topk2::ChooseLevels({kept, static_cast<size_t>(count)}, magnitude_max, is_high);
  for (int j = 0; j < count; ++j) {
    coded.entries[j] = topk2::EntryOf(positions[j], is_high[j], kept[j]);
    coded.lost[j] = kept[j] - coded.levels.ValueOf(coded.entries[j]);
  }
}

double EnergyOf(const float* block) {
  const uint32_t max = scalar::MagnitudeMax(block);
  return Energy(SignalEnergy(PlainBlock{block}, EnergyFactor(max)), max);
}

}  // namespace

Topk2Kernels Topk2Scalar() { return {Load, Select, Code, EnergyOf}; }

}  // namespace longhaul::kernels
