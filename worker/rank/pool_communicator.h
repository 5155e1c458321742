// The communicator of a rank process with the other ranks of its pool.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "longhaul/v1/job.pb.h"
#include "worker/collective/communicator.h"

namespace longhaul {

struct PoolCommunicatorOptions {
  int rank = 0, ranks = 1;
  std::string rendezvous;  // host:port of the agent's; its token is in the environment
                           // (rendezvous_token.h).
  uint64_t generation = 0;
  v1::Device device = v1::CPU;
};

struct PoolCommunicator {
  std::unique_ptr<Communicator> communicator;  // Null with one rank.
  bool on_device = false;                      // nccl: works on device memory.
  Communicator* get() const { return communicator.get(); }
};

// gloo between CPU ranks, nccl between GPU ranks, nothing for one rank. Blocks until all ranks have
// met, 2 minutes at most. FAILED_PRECONDITION: gloo's symbols are another library's, or no CUDA
// device. Others: those of Rendezvous.
absl::StatusOr<PoolCommunicator> MakePoolCommunicator(const PoolCommunicatorOptions& options);

}  // namespace longhaul
