// The Communicator of GPU ranks, over NCCL: part of the shared module longhaul_cuda_collective,
// which a rank loads only where a device is present (cuda_module.h). Nothing else of the program
// refers to it.
//
// What differs from the other implementations:
//   - Buffers are device memory of the communicator's device; CallOptions::stream is the
//     cudaStream_t behind whose queued work an operation runs. A call still returns only when its
//     result is complete: it polls the stream, the state of the communicator, and the deadline.
//     Overlap is had by calling from a thread of its own.
//   - Sums are not promised to be the rank-order sum: NCCL chooses the order by topology, size and
//     version. It is the same on every rank, and in every run on the same machines.
//   - NCCL does not say which peer failed; messages carry its own text.
//   - One process, one device: two ranks on one GPU are refused by NCCL.
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
  int device = 0;  // ordinal of the CUDA device of this rank
  Rendezvous* rendezvous =
      nullptr;             // carries NCCL's unique id from rank 0; used during the call only
  absl::Duration timeout;  // for connecting, and the barrier that ends it
};

// FAILED_PRECONDITION: no CUDA driver or device. The errors of Rendezvous::Exchange and of
// Communicator::Barrier.
absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(
    const NcclCommunicatorOptions& options);

}  // namespace longhaul

// The one symbol that is looked up in the module.
extern "C" {
using LonghaulMakeNcclCommunicator = absl::StatusOr<std::unique_ptr<longhaul::Communicator>>(
    const longhaul::NcclCommunicatorOptions&);
}
inline constexpr char kLonghaulMakeNcclCommunicator[] = "longhaul_make_nccl_communicator";
