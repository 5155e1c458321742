#include "common/codec/kernels/dense_scalar.h"
#include "common/codec/kernels/integer_policies.h"

namespace longhaul::kernels {

DenseKernels Int8Scalar(const CodecOptions& options) {
  if (options.stochastic) return scalar::KernelsOf<StochasticInteger<integer::Int8>>();
  return scalar::KernelsOf<NearestInteger<integer::Int8>>();
}

DenseKernels Int6Scalar(const CodecOptions&) {
  return scalar::KernelsOf<NearestInteger<integer::Int6>>();
}

DenseKernels Int4Scalar(const CodecOptions& options) {
  if (options.search_scale) return scalar::KernelsOf<SearchedInteger<integer::Int4>>();
  if (options.stochastic) return scalar::KernelsOf<StochasticInteger<integer::Int4>>();
  return scalar::KernelsOf<NearestInteger<integer::Int4>>();
}

}  // namespace longhaul::kernels
