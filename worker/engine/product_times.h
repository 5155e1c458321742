// Which path computes a transformer on this CPU: Longhaul's kernels, unless libtorch multiplies
// matrices so much faster that its other work no longer matters, for example on the tiles of AMX.
// Throws as torch does.
#pragma once

#include <cstdint>

#include "ATen/core/Tensor.h"
#include "common/layout/model_layout.h"

namespace longhaul {

// Of one matrix product of the model, on one thread.
struct ProductTimes {
  int64_t ours_ns = 0, torch_ns = 0;
  // About half of libtorch's time for a block is not in matrix products, and most of that is spared
  // by the kernels of FusedBlock. So the products alone must take twice as long.
  bool ours_are_slower() const { return ours_ns > 2 * torch_ns; }
};

// Times the largest matrix of a block, packing included, or a part of it. Zeros if a side is below
// 256: then products are not what takes the time. Takes a tenth of a second. Sets the number of
// torch's threads for that time.
ProductTimes MeasureProducts(const ModelLayout& layout, at::ScalarType compute);

}  // namespace longhaul
