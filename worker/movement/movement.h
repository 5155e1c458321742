// Moves bytes between host memory and a device's in the background, and runs work on the device: one
// queue for each direction and class of traffic, one for the device's own work. A queue runs in the
// order of submission; between queues the only order is that of tokens, which is the user's to give.
//
// Every work names the versions that it reads and the ones that it leaves. A version that is not
// there when a work is submitted (or, where the implementation runs the works itself, when it runs:
// a wait is missing) is an error. Errors stay: every later Wait and Join returns the first one.
//
// Implementations: EmulatedMovement (a second arena in host memory), and CUDA streams (the module
// longhaul_cuda_movement). Thread-safe. Buffers outlive the works that use them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "worker/movement/placed_buffer.h"

namespace longhaul {

enum class Direction { kUp, kDown };  // kUp: host to device.
// What would otherwise stand behind something slower.
enum class MoveClass { kState, kGradients, kWeights };

struct MoveQueue {
  Direction direction = Direction::kUp;
  MoveClass move_class = MoveClass::kState;
};
inline constexpr int kMoveQueues = 6;              // Of copies.
inline constexpr int kComputeQueue = kMoveQueues;  // The device's own work.
inline constexpr int kCallerQueue = kMoveQueues + 1;
inline constexpr int kQueues = kMoveQueues + 2;

// The end of a work: the `number`th of its queue. As it is made: something that is done.
struct MoveToken {
  int queue = 0;
  int64_t number = 0;
};

// On the device. `stream`: where to enqueue it (a cudaStream_t); null: it is to be done on return.
using DeviceWork = std::function<absl::Status(void* stream)>;

class Movement {
 public:
  // Reads: the version that is expected. Writes: the one that is left.
  struct Use {
    PlacedBuffer* buffer = nullptr;
    int64_t version = 0;
  };

  virtual ~Movement() = default;

  // Aligned to 256 bytes, zeros, freed with the last copy of the pointer. RESOURCE_EXHAUSTED: names
  // `what`, the place and the bytes.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Allocate(Place place, int64_t bytes,
                                                              absl::string_view what) = 0;

  // The first `bytes` of `from`, to the beginning of `to`, after `after`.
  MoveToken Copy(MoveQueue queue, Use from, Use to, int64_t bytes,
                 absl::Span<const MoveToken> after = {});
  MoveToken Compute(DeviceWork work, std::vector<Use> reads, std::vector<Use> writes,
                    absl::Span<const MoveToken> after = {});

  // What the caller has enqueued on the device by other means so far (a model's kernels).
  virtual absl::StatusOr<MoveToken> Fork() = 0;
  // What the caller enqueues there from now on runs after `token`.
  virtual absl::Status Join(const MoveToken& token) = 0;
  // Does not block.
  virtual bool Done(const MoveToken& token) = 0;
  // Blocks until it is done; the host may then read what it wrote. `what` names the wait in errors.
  // DEADLINE_EXCEEDED after the options' timeout, or the error that stays.
  virtual absl::Status Wait(const MoveToken& token, absl::string_view what) = 0;
  // Of all that was submitted.
  absl::Status WaitAll(absl::string_view what);

  // Before the host reads a buffer. INTERNAL: another version lies in it.
  static absl::Status Expect(const Use& use);

 protected:
  struct Work {
    std::string name;
    DeviceWork run;  // On the compute queue; empty: a copy.
    std::vector<Use> reads, writes;
    int64_t bytes = 0;
    std::vector<MoveToken> after;
  };
  // `token` is the work's. Called in the order of the queue, with a lock held.
  virtual absl::Status Enqueue(const MoveToken& token, Work work) = 0;

  // Keeps the first error.
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(error_mutex_);
  absl::Status error() const ABSL_LOCKS_EXCLUDED(error_mutex_);
  static void SetPresent(const Use& use) { use.buffer->version_ = use.version; }

 private:
  MoveToken Submit(int queue, Work work) ABSL_LOCKS_EXCLUDED(submit_mutex_);

  absl::Mutex submit_mutex_;
  std::array<int64_t, kQueues> submitted_ ABSL_GUARDED_BY(submit_mutex_) = {};
  mutable absl::Mutex error_mutex_;
  absl::Status error_ ABSL_GUARDED_BY(error_mutex_);
};

}  // namespace longhaul
