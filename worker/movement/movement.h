// Copies bytes between host memory and the memory of a device in the background, and runs work on
// the device. There is a queue for each direction and class of traffic, and one for the device's
// own work. A queue runs in the order of submission. Between queues only tokens give an order,
// which the caller chooses.
//
// Every work names the versions of buffers that it reads and writes. It is an error if a buffer
// does not have the version that a work reads: when the work is submitted, and, where the
// implementation runs works itself, when it runs (then a wait is missing). Errors stay: every later
// Wait and Join returns the first one, and does not wait for works that were refused.
//
// Implementations: EmulatedMovement (a second arena in host memory), and CUDA streams (the module
// longhaul_cuda_movement_streams). Thread-safe. Buffers must outlive the works that use them. Only
// Wait and WaitAll block.
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
#include "worker/movement/versioned_buffer.h"

namespace longhaul {

// kUp: host to device. kDown: device to host.
enum class Direction { kUp, kDown };
// Each class has queues of its own, so that it does not wait behind another one.
enum class MoveClass { kState, kGradients, kWeights };

struct MoveQueue {
  Direction direction = Direction::kUp;
  MoveClass move_class = MoveClass::kState;
};
// Queues 0 to kMoveQueues - 1 are for copies.
inline constexpr int kMoveQueues = 6;
// The device's own work.
inline constexpr int kComputeQueue = kMoveQueues;
// What the caller enqueues by other means (Fork).
inline constexpr int kCallerQueue = kMoveQueues + 1;
inline constexpr int kQueues = kMoveQueues + 2;

// Stands for the end of the `number`th work of a queue. The default stands for a work that is done.
struct MoveToken {
  int queue = 0;
  int64_t number = 0;
};

// Work on the device. It is to be enqueued on `stream` (a cudaStream_t). Null: it must be done on
// return.
using DeviceWork = std::function<absl::Status(void* stream)>;

class Movement {
 public:
  // A buffer that a work uses. `version`: the one that it reads, or the one that it writes.
  struct Use {
    VersionedBuffer* buffer = nullptr;
    int64_t version = 0;
  };

  virtual ~Movement() = default;

  // Memory filled with zeros, aligned to 256 bytes, freed with the last copy of the pointer.
  // RESOURCE_EXHAUSTED: there is not enough; the message names `what`, the side and the bytes.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Allocate(MemorySide side, int64_t bytes,
                                                              absl::string_view what) = 0;

  // Copies the first `bytes` of `from` to the beginning of `to`, after `after` are done.
  MoveToken Copy(MoveQueue queue, Use from, Use to, int64_t bytes,
                 absl::Span<const MoveToken> after = {});
  MoveToken Compute(DeviceWork work, std::vector<Use> reads, std::vector<Use> writes,
                    absl::Span<const MoveToken> after = {});

  // A token for everything that the caller has enqueued on the device by other means so far (the
  // kernels of a model).
  virtual absl::StatusOr<MoveToken> Fork() = 0;
  // Everything that the caller enqueues there from now on runs after `token`.
  virtual absl::Status Join(const MoveToken& token) = 0;
  // Does not block.
  virtual bool Done(const MoveToken& token) = 0;
  // Blocks until the work is done; the host may then read what it wrote. `what` names the wait in
  // errors. DEADLINE_EXCEEDED after the options' timeout; or the first error of all works.
  virtual absl::Status Wait(const MoveToken& token, absl::string_view what) = 0;
  // Waits for everything that was submitted, also after an error; not after a wait that took too
  // long. Returns the first error.
  absl::Status WaitAll(absl::string_view what);
  // Keeps memory that works may still use, since nobody has seen their end, until the movement has
  // ended.
  void Keep(std::shared_ptr<void> memory) ABSL_LOCKS_EXCLUDED(error_mutex_);

  // Call before the host reads a buffer. INTERNAL: the buffer has another version.
  static absl::Status Expect(const Use& use);

 protected:
  struct Work {
    std::string name;
    // On the compute queue. Empty: the work is a copy.
    DeviceWork run;
    std::vector<Use> reads, writes;
    int64_t bytes = 0;
    std::vector<MoveToken> after;
  };
  // `token` stands for `work`. Called in the order of each queue, with submit_mutex_ held. After an
  // error the number of the token is used again.
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
  std::vector<std::shared_ptr<void>> kept_ ABSL_GUARDED_BY(error_mutex_);
};

}  // namespace longhaul
