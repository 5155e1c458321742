// Launches the kernels of kernel_table-inl.h on a stream of the current device. Does not wait; an
// error is that of the launch.
#pragma once

#include "common/codec/codec.h"
#include "common/codec/cuda/segment_jobs.h"
#include "cuda_runtime_api.h"

namespace longhaul::cuda {

cudaError_t LaunchEncode(const CodecOptions& options, const EncodeJob* jobs, EncodeReport* reports,
                         int count, cudaStream_t stream);
cudaError_t LaunchDecode(CodecKind kind, const DecodeJob* jobs, int count, float weight,
                         bool accumulate, cudaStream_t stream);

// For int8, int6, int4.
cudaError_t LaunchReduce(CodecKind kind, const ReduceJob* jobs, EncodeReport* reports, int count,
                         float decay, cudaStream_t stream);

}  // namespace longhaul::cuda
