// What coding on a device needs of it: memory, and two queues of work. It is the interface between
// the codec (DeviceCodec), which is ordinary code, and CUDA, which lives in a module that is loaded
// if there is a device. Tests have an emulation.
//
// One queue is the training's own: works that are enqueued there run between its kernels. The other
// is the codec's, which runs beside them. The training's queue never waits for the codec's.
//
// Thread-safe. Enqueuing does not wait for the device, except that a copy from host memory that is
// not pinned may wait for earlier copies. Pointers must stay valid until a Wait after their use.
// Errors: RESOURCE_EXHAUSTED (memory), INTERNAL (the device failed, and cannot be used from then
// on).
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
  // Both calls may block until all work on the device is done, so memory is kept and used again
  // (memory_store.h). Aligned to 256 bytes.
  virtual absl::StatusOr<void*> Allocate(Memory kind, int64_t bytes) = 0;
  virtual void Free(Memory kind, void* memory) = 0;

  enum class Queue { kTraining, kCodec };
  // Copies between any two places in device or host memory.
  virtual absl::Status Copy(Queue queue, void* to, const void* from, int64_t bytes) = 0;
  virtual absl::Status Zero(Queue queue, void* to, int64_t bytes) = 0;
  // Works that the codec's queue gets from now on run after all works that the training's queue has
  // got so far.
  virtual absl::Status FollowTraining() = 0;

  // Runs on the codec's queue. `jobs` and `reports` are device memory, with `count` >= 1 segments.
  virtual absl::Status Encode(const CodecOptions& options, const cuda::EncodeJob* jobs,
                              cuda::EncodeReport* reports, int count) = 0;
  // out = decoded, or with `accumulate` out += weight * decoded.
  virtual absl::Status Decode(CodecKind kind, const cuda::DecodeJob* jobs, int count, float weight,
                              bool accumulate) = 0;

  // Waits until all works of the codec's queue are done, without using a core.
  virtual absl::Status Wait() = 0;
};

}  // namespace longhaul
