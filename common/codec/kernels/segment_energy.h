// Computes the energies of a segment from those of its measured blocks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/host_device.h"
#include "common/codec/kernels/block.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::kernels {

// Adds the energies of the measured blocks in their order, and scales them up to the segment. at(b)
// is the BlockEnergy of block b.
template <typename EnergyAt>
LONGHAUL_HOST_DEVICE BlockEnergy SegmentEnergy(int64_t elements, EnergyAt at) {
  BlockEnergy sum;
  int64_t measured = 0;
  for (int64_t group = 0; group * kSampleBlocks * kBlockElements < elements; ++group) {
    const int64_t b = MeasuredBlock(group);
    if (b * kBlockElements >= elements) continue;
    const BlockEnergy energy = at(b);
    sum.error += energy.error;
    sum.signal += energy.signal;
    measured += std::min(int64_t{kBlockElements}, elements - b * kBlockElements);
  }
  const double share = static_cast<double>(elements) / static_cast<double>(measured);
  sum.error *= share;
  sum.signal *= share;
  return sum;
}

}  // namespace longhaul::kernels
