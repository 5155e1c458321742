#include "worker/collective/nccl_group.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/collective/collective_cuda_status.h"

namespace longhaul {
namespace {

// The wait between two polls. It yields at first, since most collectives end within tens of
// microseconds, and sleeps later.
class Backoff {
 public:
  void Pause() {
    if (++turns_ < 1000) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  int turns_ = 0;
};

absl::Status NcclStatus(ncclResult_t result, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const char* detail = comm == nullptr ? "" : ncclGetLastError(comm);
  return absl::UnavailableError(absl::StrCat("NCCL: ", ncclGetErrorString(result), " ", detail));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclGroup>> NcclGroup::Connect(int rank, int size, int device,
                                                              const ncclUniqueId& id,
                                                              SteadyDeadline deadline) {
  auto group = absl::WrapUnique(new NcclGroup(device));
  LH_RETURN_IF_ERROR(group->Prepare());
  {
    absl::MutexLock lock(&group->mutex_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t result = ncclCommInitRankConfig(&group->comm_, size, id, rank, &config);
    LH_RETURN_IF_ERROR(NcclStatus(result, group->comm_));
    // Without a driver the call fails and makes no communicator, so there is nothing to poll.
    if (group->comm_ == nullptr) return absl::UnavailableError("NCCL made no communicator");
  }
  LH_RETURN_IF_ERROR(group->WaitSettled(deadline));
  return group;
}

absl::Status NcclGroup::Prepare() {
  LH_RETURN_IF_ERROR(CollectiveCudaStatus(cudaSetDevice(device_), "cudaSetDevice"));
  LH_RETURN_IF_ERROR(CollectiveCudaStatus(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming),
                                          "cudaEventCreate"));
  return CollectiveCudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                              "cudaStreamCreate");
}

absl::StatusOr<std::unique_ptr<NcclGroup>> NcclGroup::Split(int color, int rank,
                                                            SteadyDeadline deadline) {
  auto group = absl::WrapUnique(new NcclGroup(device_));
  LH_RETURN_IF_ERROR(group->Prepare());
  absl::Status begun;
  {
    absl::MutexLock lock(&mutex_);
    absl::MutexLock made(&group->mutex_);
    if (aborted_) return absl::UnavailableError(reason_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    begun = NcclStatus(ncclCommSplit(comm_, color, rank, &group->comm_, &config), comm_);
  }
  if (!begun.ok()) return Fail(std::move(begun));
  // NCCL makes the new communicator in the background of this one. It exists when this one has
  // settled.
  LH_RETURN_IF_ERROR(WaitSettled(deadline));
  {
    absl::MutexLock made(&group->mutex_);
    if (group->comm_ == nullptr) return absl::UnavailableError("NCCL made no communicator");
  }
  LH_RETURN_IF_ERROR(group->WaitSettled(deadline));
  return group;
}

NcclGroup::~NcclGroup() {
  cudaSetDevice(device_);
  // Every operation has been waited for, so nothing is lost. Finalizing could wait for a dead peer.
  Abort("destroyed");
  if (done_ != nullptr) cudaEventDestroy(done_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::Status NcclGroup::Run(cudaStream_t stream, SteadyDeadline deadline,
                            absl::FunctionRef<ncclResult_t(ncclComm_t, cudaStream_t)> enqueue) {
  LH_RETURN_IF_ERROR(CollectiveCudaStatus(cudaSetDevice(device_), "cudaSetDevice"));
  if (stream == nullptr) stream = stream_;
  LH_RETURN_IF_ERROR(Enqueue(stream, enqueue));
  LH_RETURN_IF_ERROR(WaitSettled(deadline));
  if (absl::Status recorded =
          CollectiveCudaStatus(cudaEventRecord(done_, stream), "cudaEventRecord");
      !recorded.ok()) {
    return Fail(std::move(recorded));
  }
  return WaitStream(deadline);
}

absl::Status NcclGroup::Enqueue(cudaStream_t stream,
                                absl::FunctionRef<ncclResult_t(ncclComm_t, cudaStream_t)> enqueue) {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (aborted_) return absl::UnavailableError(reason_);
    status = NcclStatus(ncclGroupStart(), comm_);
    if (status.ok()) {
      const absl::Status queued = NcclStatus(enqueue(comm_, stream), comm_);
      status = NcclStatus(ncclGroupEnd(), comm_);
      if (!queued.ok()) status = queued;
    }
  }
  return status.ok() ? status : Fail(std::move(status));
}

absl::Status NcclGroup::WaitSettled(SteadyDeadline deadline) {
  Backoff backoff;
  for (bool settled = false;;) {
    LH_RETURN_IF_ERROR(Poll(&settled));
    if (settled) return absl::OkStatus();
    if (SteadyDeadline::clock::now() >= deadline) {
      return Fail(absl::DeadlineExceededError("deadline passed while NCCL connects the ranks"));
    }
    backoff.Pause();
  }
}

absl::Status NcclGroup::WaitStream(SteadyDeadline deadline) {
  Backoff backoff;
  for (;;) {
    const cudaError_t query = QueryCudaEvent(done_);
    if (query == cudaSuccess) return absl::OkStatus();
    if (query != cudaErrorNotReady) return Fail(CollectiveCudaStatus(query, "cudaEventQuery"));
    bool settled;
    LH_RETURN_IF_ERROR(Poll(&settled));
    if (SteadyDeadline::clock::now() >= deadline) {
      return Fail(absl::DeadlineExceededError(
          "deadline passed while waiting for the other ranks' kernels"));
    }
    backoff.Pause();
  }
}

absl::Status NcclGroup::Poll(bool* settled) {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (aborted_) return absl::UnavailableError(reason_);
    ncclResult_t state = ncclSuccess;
    status = NcclStatus(ncclCommGetAsyncError(comm_, &state), comm_);
    if (status.ok()) status = NcclStatus(state, comm_);
    *settled = state != ncclInProgress;
  }
  return status.ok() ? status : Fail(std::move(status));
}

absl::Status NcclGroup::Fail(absl::Status status) {
  Abort(status.message());
  return status;
}

void NcclGroup::Abort(absl::string_view reason) {
  absl::MutexLock lock(&mutex_);
  if (aborted_) return;
  aborted_ = true;
  reason_ = absl::StrCat("aborted: ", reason);
  // Stops kernels that spin for a peer, and frees the communicator.
  if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
}

}  // namespace longhaul
