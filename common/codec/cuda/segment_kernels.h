// The codec kernels alone, run after the works of a stream that the caller gives. For users that
// have their own memory and order of work on the device, such as the engine of a rank. (Fragments
// are coded with DeviceCodec.) An interface: the CUDA part is a module that is loaded if there is a
// device; tests have an emulation that runs the kernels on the CPU at once.
//
// Thread-safe. Nothing waits. Jobs, reports and everything that jobs point to are device memory,
// which must stay valid until the kernel has run. There are `count` >= 1 segments of 1 to
// kTileElements elements. Bytes and floats are those of the host's codecs. INTERNAL: the launch
// failed.
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
  // Only for int8, int6 and int4. Reports are those of jobs that code.
  virtual absl::Status Reduce(CodecKind kind, const cuda::ReduceJob* jobs,
                              cuda::EncodeReport* reports, int count, void* stream) const = 0;
};

// The kernels of the module longhaul_cuda_codec, which stay until the process ends. Errors and
// `folder`: see LoadCudaFunction.
absl::StatusOr<const SegmentKernels*> LoadCudaSegmentKernels(const std::string& folder = "");

}  // namespace longhaul
