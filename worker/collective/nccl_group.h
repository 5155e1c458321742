// An ncclComm_t that can be aborted from any thread, and the waits on it.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "cuda_runtime_api.h"
#include "nccl.h"
#include "worker/collective/steady_deadline.h"

namespace longhaul {

// One thread at a time calls the operations; any thread may call Abort.
class NcclGroup {
 public:
  // Blocks until the ranks are connected. UNAVAILABLE: NCCL failed. DEADLINE_EXCEEDED: a rank did
  // not come.
  static absl::StatusOr<std::unique_ptr<NcclGroup>> Connect(int rank, int size, int device,
                                                            const ncclUniqueId& id,
                                                            SteadyDeadline deadline);
  // Makes a group of the ranks that give the same color, numbered by `rank`. Every rank of this
  // group calls it. Same errors; they also abort this group.
  absl::StatusOr<std::unique_ptr<NcclGroup>> Split(int color, int rank, SteadyDeadline deadline);
  ~NcclGroup();

  // Queues the calls of `enqueue` on `stream` (null: its own stream) as one NCCL group, and waits
  // until it has run. Errors abort the communicator: UNAVAILABLE (aborted, or NCCL or CUDA failed),
  // DEADLINE_EXCEEDED.
  absl::Status Run(cudaStream_t stream, SteadyDeadline deadline,
                   absl::FunctionRef<ncclResult_t(ncclComm_t, cudaStream_t)> enqueue);

  void Abort(absl::string_view reason);

 private:
  explicit NcclGroup(int device) : device_(device) {}
  // Makes its stream and event.
  absl::Status Prepare();

  absl::Status Enqueue(cudaStream_t stream,
                       absl::FunctionRef<ncclResult_t(ncclComm_t, cudaStream_t)> enqueue);
  // Waits until a call has ended that NCCL continues in the background (ncclInProgress).
  absl::Status WaitSettled(SteadyDeadline deadline);
  absl::Status WaitStream(SteadyDeadline deadline);
  // Reads the state of the communicator: OK, and whether no call is in progress (*settled).
  absl::Status Poll(bool* settled);
  absl::Status Fail(absl::Status status);

  const int device_;
  cudaEvent_t done_ = nullptr;
  // For calls that name no stream.
  cudaStream_t stream_ = nullptr;

  // Held around each NCCL call. These are short, since the communicator is non-blocking.
  absl::Mutex mutex_;
  ncclComm_t comm_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
