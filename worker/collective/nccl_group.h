// An ncclComm_t that can be aborted from any thread, and the waits on it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "cuda_runtime_api.h"
#include "nccl.h"

namespace longhaul {

// Operations come from one thread at a time; Abort from any.
class NcclGroup {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Blocks until the ranks are connected. UNAVAILABLE: NCCL failed. DEADLINE_EXCEEDED: a rank did
  // not come.
  static absl::StatusOr<std::unique_ptr<NcclGroup>> Connect(int rank, int size, int device,
                                                            const ncclUniqueId& id,
                                                            Deadline deadline);
  // A group of those ranks that give the same color, numbered by `rank`. Every rank of this one
  // calls it. The same errors, which abort this one, too.
  absl::StatusOr<std::unique_ptr<NcclGroup>> Split(int color, int rank, Deadline deadline);
  ~NcclGroup();

  // Queues what `enqueue` calls on `stream` (null: a stream of its own) as one NCCL group and waits
  // until it has run. Errors, which abort the communicator: UNAVAILABLE (aborted, or NCCL or CUDA
  // failed), DEADLINE_EXCEEDED.
  absl::Status Run(cudaStream_t stream, Deadline deadline,
                   absl::FunctionRef<ncclResult_t(ncclComm_t, cudaStream_t)> enqueue);

  void Abort(absl::string_view reason);

 private:
  explicit NcclGroup(int device) : device_(device) {}
  // Its stream and event.
  absl::Status Prepare();

  absl::Status Enqueue(cudaStream_t stream,
                       absl::FunctionRef<ncclResult_t(ncclComm_t, cudaStream_t)> enqueue);
  // Waits until a call that NCCL goes on with in the background (ncclInProgress) has ended.
  absl::Status WaitSettled(Deadline deadline);
  absl::Status WaitStream(Deadline deadline);
  // The state of the communicator; ok and *settled when no call is in progress.
  absl::Status Poll(bool* settled);
  absl::Status Fail(absl::Status status);

  const int device_;
  cudaEvent_t done_ = nullptr;
  cudaStream_t stream_ = nullptr;  // for calls that name none

  absl::Mutex
      mutex_;  // held around each NCCL call, which are short with a non-blocking communicator
  ncclComm_t comm_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
