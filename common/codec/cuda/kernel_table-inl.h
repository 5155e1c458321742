// Which kernel codes which kind: the only list of the instantiations.
//
// CUDA code. A test compiles it for the CPU (tests/testing/cuda_emulation.h).
#pragma once

#include "common/codec/codec.h"
#include "common/codec/cuda/dense_kernels-inl.h"
#include "common/codec/cuda/topk2_kernels-inl.h"
#include "common/codec/kernels/e3m0_policies.h"
#include "common/codec/kernels/float_policies.h"
#include "common/codec/kernels/integer_policies.h"
#include "common/codec/kernels/sign1_policies.h"

namespace longhaul::cuda {

// Launched with one thread block of kThreads for each job.
using EncodeKernel = void (*)(const EncodeJob* jobs, EncodeReport* reports, float decay);
using ReduceKernel = void (*)(const ReduceJob* jobs, EncodeReport* reports, float decay);
using DecodeKernel = void (*)(const DecodeJob* jobs, float weight, bool accumulate);

inline EncodeKernel EncodeKernelOf(const CodecOptions& options) {
  using integer::Int4;
  using integer::Int6;
  using integer::Int8;
  switch (options.kind) {
    case CodecKind::kFp32:
      return EncodeDense<kernels::Fp32>;
    case CodecKind::kBf16:
      return EncodeDense<kernels::Bf16>;
    case CodecKind::kE3m0:
      if (options.search_scale) return EncodeDense<kernels::SearchedE3m0>;
      if (options.stochastic) return EncodeDense<kernels::StochasticE3m0>;
      return EncodeDense<kernels::NearestE3m0>;
    case CodecKind::kInt8:
      if (options.stochastic) return EncodeDense<kernels::StochasticInteger<Int8>>;
      return EncodeDense<kernels::NearestInteger<Int8>>;
    case CodecKind::kInt6:
      return EncodeDense<kernels::NearestInteger<Int6>>;
    case CodecKind::kInt4:
      if (options.search_scale) return EncodeDense<kernels::SearchedInteger<Int4>>;
      if (options.stochastic) return EncodeDense<kernels::StochasticInteger<Int4>>;
      return EncodeDense<kernels::NearestInteger<Int4>>;
    case CodecKind::kSign1:
      if (options.rms_scale) return EncodeDense<kernels::RootMeanSquareSign1>;
      return EncodeDense<kernels::LeastErrorSign1>;
    case CodecKind::kTopk2:
      return EncodeTopk2;
  }
  return nullptr;
}

inline DecodeKernel DecodeKernelOf(CodecKind kind) {
  switch (kind) {
    case CodecKind::kFp32:
      return DecodeDense<kernels::Fp32>;
    case CodecKind::kBf16:
      return DecodeDense<kernels::Bf16>;
    case CodecKind::kE3m0:
      return DecodeDense<kernels::NearestE3m0>;
    case CodecKind::kInt8:
      return DecodeDense<kernels::NearestInteger<integer::Int8>>;
    case CodecKind::kInt6:
      return DecodeDense<kernels::NearestInteger<integer::Int6>>;
    case CodecKind::kInt4:
      return DecodeDense<kernels::NearestInteger<integer::Int4>>;
    case CodecKind::kSign1:
      return DecodeDense<kernels::LeastErrorSign1>;
    case CodecKind::kTopk2:
      return DecodeTopk2;
  }
  return nullptr;
}

// Sums coded values that ranks of a pool send each other. Null: not built for this kind.
inline ReduceKernel ReduceKernelOf(CodecKind kind) {
  if (kind == CodecKind::kInt8) return ReduceDense<kernels::NearestInteger<integer::Int8>>;
  if (kind == CodecKind::kInt6) return ReduceDense<kernels::NearestInteger<integer::Int6>>;
  if (kind == CodecKind::kInt4) return ReduceDense<kernels::NearestInteger<integer::Int4>>;
  return nullptr;
}

}  // namespace longhaul::cuda
