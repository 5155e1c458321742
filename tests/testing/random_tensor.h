// Normal random numbers for tests. They depend on the seed alone, not on the tests that ran before
// in the process, as those of torch's own generator do.
#pragma once

#include <cstdint>

#include "ATen/CPUGeneratorImpl.h"
#include "ATen/core/Tensor.h"
#include "ATen/ops/randn.h"

namespace longhaul {

inline at::Tensor RandomNormal(at::IntArrayRef shape, uint64_t seed = 1) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed));
}

}  // namespace longhaul
