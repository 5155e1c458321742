// What coding on a device needs of it: memory, and two queues of work. The seam between the codec
// (DeviceCodec), which is ordinary code, and CUDA, which lives in a module that is loaded where a
// device is; tests have an emulation of it.
//
// Of the queues one is the training's own: what is enqueued there runs between its kernels. The
// other is the codec's, which runs beside them. The training's queue never waits for the codec's.
//
// Thread-safe. Enqueuing does not wait for the device, except that a copy from host memory that is
// not pinned may wait for the copies before it. Pointers must stay valid until a Wait after their
// use. Errors: RESOURCE_EXHAUSTED (memory), UNAVAILABLE (the device failed; it is unusable from
// then on).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/codec/codec.h"
#include "common/codec/cuda/segment_jobs.h"

namespace longhaul {

class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  enum class Memory { kDevice, kPinnedHost };
  // Either may stand still until all work on the device is done, so memory is kept and used again
  // (memory_store.h). Aligned to 256 bytes.
  virtual absl::StatusOr<void*> Allocate(Memory kind, int64_t bytes) = 0;
  virtual void Free(Memory kind, void* memory) = 0;

  enum class Queue { kTraining, kCodec };
  // Between any two places in device or host memory.
  virtual absl::Status Copy(Queue queue, void* to, const void* from, int64_t bytes) = 0;
  virtual absl::Status Zero(Queue queue, void* to, int64_t bytes) = 0;
  // What is enqueued for the codec from now on runs after what was enqueued for the training so
  // far.
  virtual absl::Status FollowTraining() = 0;

  // On the codec's queue. `jobs` and `reports` are device memory, of `count` >= 1 segments.
  virtual absl::Status Encode(const CodecOptions& options, const cuda::EncodeJob* jobs,
                              cuda::EncodeReport* reports, int count) = 0;
  // out = decoded, or if `accumulate` out += weight * decoded.
  virtual absl::Status Decode(CodecKind kind, const cuda::DecodeJob* jobs, int count, float weight,
                              bool accumulate) = 0;

  // Waits until all that was enqueued for the codec is done, without using a core.
  virtual absl::Status Wait() = 0;
};

}  // namespace longhaul
