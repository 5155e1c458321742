#include "common/codec/kernels/dense_scalar.h"
#include "common/codec/kernels/float_policies.h"

namespace longhaul::kernels {

DenseKernels Fp32Scalar(const CodecOptions&) { return scalar::KernelsOf<Fp32>(); }

}  // namespace longhaul::kernels
