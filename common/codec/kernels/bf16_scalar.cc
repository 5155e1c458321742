#include "common/codec/kernels/dense_scalar.h"
#include "common/codec/kernels/float_policies.h"

namespace longhaul::kernels {

DenseKernels Bf16Scalar(const CodecOptions&) { return scalar::KernelsOf<Bf16>(); }

}  // namespace longhaul::kernels
