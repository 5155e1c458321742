#include "common/codec/kernels/dense_scalar.h"
#include "common/codec/kernels/sign1_policies.h"

namespace longhaul::kernels {

DenseKernels Sign1Scalar(const CodecOptions& options) {
  if (options.rms_scale) return scalar::KernelsOf<RootMeanSquareSign1>();
  return scalar::KernelsOf<LeastErrorSign1>();
}

}  // namespace longhaul::kernels
