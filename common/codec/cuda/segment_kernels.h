// The codec kernels by themselves, behind what is enqueued on a stream of the caller's: for who keeps
// its own memory and order of work on the device, as the engine of a rank does. (Fragments are coded
// through DeviceCodec.) A seam: the CUDA part is a module that is loaded where a device is; tests
// have an emulation that runs the kernels on the CPU, at once.
//
// Thread-safe. Nothing waits. Jobs, reports and all that jobs point to are device memory, which must
// stay valid until the kernel has run; `count` >= 1 segments of 1 to kTileElements elements. The
// bytes and floats are those of the host's codecs. UNAVAILABLE: the launch failed.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/codec/codec.h"
#include "common/codec/cuda/segment_jobs.h"

namespace longhaul {

class SegmentKernels {
 public:
  virtual ~SegmentKernels() = default;

  // `stream`: a cudaStream_t of the thread's current device.
  virtual absl::Status Encode(const CodecOptions& options, const cuda::EncodeJob* jobs,
                              cuda::EncodeReport* reports, int count, void* stream) const = 0;
  // out = decoded.
  virtual absl::Status Decode(CodecKind kind, const cuda::DecodeJob* jobs, int count,
                              void* stream) const = 0;
  // int8 and int4 alone. Reports are those of jobs that code.
  virtual absl::Status Reduce(CodecKind kind, const cuda::ReduceJob* jobs,
                              cuda::EncodeReport* reports, int count, void* stream) const = 0;
};

// Those of the module longhaul_cuda_codec, which stay for the life of the process. Errors and
// `folder`: see LoadCudaFunction.
absl::StatusOr<const SegmentKernels*> LoadCudaSegmentKernels(const std::string& folder = "");

}  // namespace longhaul
