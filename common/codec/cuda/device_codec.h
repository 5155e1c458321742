// Codes fragments on a device, with the same bytes as the host's codecs. Blocking calls for
// background threads, on the codec's own queue; training continues beside them.
//
// Work is done in pieces of at most kPieceElements, with device memory of bounded size for any
// fragment. Codes are made in device memory and then copied out: kernels that wrote over the bus
// would hold the processors for as long as the transfer takes. A piece has fewer thread blocks than
// a large device has processors, so that training finds some free.
//
// Thread-safe; calls run one after the other. Errors: RESOURCE_EXHAUSTED (memory of the device or
// pinned memory), INTERNAL (the device failed).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/codec/cuda/device_runtime.h"
#include "common/codec/cuda/memory_store.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {

// Floats in device memory. They are given back when the last copy ends.
using DeviceFloats = std::shared_ptr<float>;

class DeviceCodec {
 public:
  static constexpr int64_t kPieceElements = 64 * kTileElements;

  explicit DeviceCodec(std::shared_ptr<DeviceRuntime> runtime);

  DeviceRuntime& runtime() { return *runtime_; }

  absl::StatusOr<DeviceFloats> AllocateFloats(int64_t count);
  // Pinned host memory.
  absl::StatusOr<std::shared_ptr<uint8_t>> AllocatePinned(int64_t bytes);

  // A segment of local arrays of floats. `noise` is for stochastic encoders.
  struct Segment {
    int64_t offset = 0;
    int32_t elements = 0;
    NoiseKey noise;
  };
  // u = (values - minus) + decay * error in local arrays; minus and error may be null. `values` is
  // in host memory if `host_values` is not empty. `lost` may be null, or one of the inputs in
  // device memory. Segments ascend and do not overlap.
  struct Input {
    absl::Span<const float> host_values;
    const float* values = nullptr;
    const float* minus = nullptr;
    const float* error = nullptr;
    float* lost = nullptr;
    absl::Span<const Segment> segments;
  };
  // Codes the segments, one after another, into `out`, which is pinned memory of their coded size.
  // Returns the result of each; for a segment with NaN or Inf it has the index of the first one.
  absl::StatusOr<std::vector<cuda::EncodeReport>> Encode(const Codec& codec, const Input& input,
                                                         uint8_t* out);

  // Decodes blocks of a coded segment that Validate accepts; `payload` and `out` are device memory.
  // As Codec::Decode, or with `accumulate` as Codec::DecodeAccumulate.
  absl::Status Decode(CodecKind kind, const cuda::DecodeJob& job, float weight, bool accumulate);

  // Copies on the codec's queue, and waits for the end.
  absl::Status Upload(absl::Span<const float> from, float* to);
  absl::Status Download(const float* from, absl::Span<float> to);
  absl::Status Zero(float* values, int64_t count);

 private:
  struct Piece;
  struct Pieces;

  static Pieces CutIntoPieces(const Codec& codec, const Input& input);
  // Fills in the jobs of the piece's segments. `staged`: the piece's host values on the device, or
  // null. `payload`: where its codes are made.
  static void FillJobs(const Codec& codec, const Input& input, const Piece& piece,
                       const float* staged, uint8_t* payload, cuda::EncodeJob* jobs);
  absl::StatusOr<std::vector<cuda::EncodeReport>> EncodeLocked(const Codec& codec,
                                                               const Input& input, uint8_t* out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<DeviceRuntime> runtime_;
  const std::shared_ptr<MemoryStore> device_memory_, pinned_memory_;
  // One call at a time uses the codec's queue.
  absl::Mutex mutex_;
};

}  // namespace longhaul
