// The streams of one device, as far as collectives between ranks of one process need them. A stream
// runs its works in the order in which it got them. Only events order the works of different
// streams.
//
// Implementations: EmulatedStreams (host memory), CUDA (the module longhaul_test_cuda_streams).
// Thread-safe. Only Wait blocks. Errors: UNAVAILABLE (the device failed), RESOURCE_EXHAUSTED.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace longhaul {

class DeviceStreams {
 public:
  // Stands for all works that a stream got before Record. Null: for none.
  class Event {
   public:
    virtual ~Event() = default;
  };
  using EventPtr = std::shared_ptr<const Event>;
  // The most ranks whose values one sum can add.
  static constexpr int kSourcesMax = 64;

  virtual ~DeviceStreams() = default;

  // A new stream (a cudaStream_t). It exists until the last copy of the pointer ends. After that
  // nothing may be queued on it.
  virtual absl::StatusOr<std::shared_ptr<void>> NewStream() = 0;

  virtual absl::StatusOr<EventPtr> Record(void* stream) = 0;
  // Works that `stream` gets from now on run after the event.
  virtual absl::Status Block(void* stream, const EventPtr& event) = 0;

  // On device memory, which must exist until the stream has run the copy. At least one element.
  virtual absl::Status Copy(void* stream, void* to, const void* from, int64_t bytes) = 0;
  // The rank-order sum (rank_order_sum.h) of 1 to kSourcesMax sources. `output` may be one of them.
  virtual absl::Status Sum(void* stream, absl::Span<const float* const> sources, float* output,
                           int64_t count) = 0;
  virtual absl::Status Sum(void* stream, absl::Span<const double* const> sources, double* output,
                           int64_t count) = 0;

  // Blocks until the event has come. DEADLINE_EXCEEDED: it has not come by then, a time of
  // SteadyTime. INTERNAL: it cannot come.
  virtual absl::Status Wait(const EventPtr& event, absl::Time deadline) = 0;
};

}  // namespace longhaul
