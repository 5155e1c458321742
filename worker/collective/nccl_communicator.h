// The Communicator of GPU ranks, with NCCL. It is part of the shared module
// longhaul_cuda_collective, which a rank loads only if there is a device (cuda_module.h). Nothing
// else of the program refers to it.
//
// Differences from the other implementations:
//   - Buffers are device memory of the communicator's device. CallOptions::stream is a
//     cudaStream_t; an operation runs after the work that is queued on it. A call still returns
//     only when its result is complete: it polls the stream, the state of the communicator, and the
//     deadline. For overlap the caller uses a separate thread.
//   - Sums may differ from the rank-order sum: NCCL chooses the order by topology, size and
//     version. It is the same on every rank, and in every run on the same machines.
//   - NCCL does not say which peer failed; messages contain its own text.
//   - One process, one device: NCCL refuses two ranks on one GPU.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collective/communicator.h"
#include "worker/collective/rendezvous.h"

namespace longhaul {

struct NcclCommunicatorOptions {
  int rank = 0;
  int size = 0;
  // Ordinal of this rank's CUDA device.
  int device = 0;
  // Carries NCCL's unique id from rank 0. Used only during the call.
  Rendezvous* rendezvous = nullptr;
  // For connecting, and for the barrier at its end.
  absl::Duration timeout;
};

// FAILED_PRECONDITION: no CUDA driver or device. Others: those of Rendezvous::Exchange and of
// Communicator::Barrier.
absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(
    const NcclCommunicatorOptions& options);

}  // namespace longhaul

// The only symbol that is looked up in the module.
extern "C" {
using LonghaulMakeNcclCommunicator = absl::StatusOr<std::unique_ptr<longhaul::Communicator>>(
    const longhaul::NcclCommunicatorOptions&);
}
inline constexpr char kLonghaulMakeNcclCommunicator[] = "longhaul_make_nccl_communicator";
