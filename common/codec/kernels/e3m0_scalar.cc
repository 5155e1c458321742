#include "common/codec/kernels/dense_scalar.h"
#include "common/codec/kernels/e3m0_policies.h"

namespace longhaul::kernels {

DenseKernels E3m0Scalar(const CodecOptions& options) {
  if (options.search_scale) return scalar::KernelsOf<SearchedE3m0>();
  if (options.stochastic) return scalar::KernelsOf<StochasticE3m0>();
  return scalar::KernelsOf<NearestE3m0>();
}

}  // namespace longhaul::kernels
