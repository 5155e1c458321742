// The communicator of a rank process with the other ranks of its pool.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/thread_team.h"
#include "common/rpc/tls.h"
#include "longhaul/v1/job.pb.h"
#include "worker/collective/communicator.h"

namespace longhaul {

struct PoolCommunicatorOptions {
  int rank = 0, ranks = 1;  // In the pool.
  int local_rank = 0;       // On this machine: the number of its device.
  // host:port of the rendezvous of node 0's agent; its token is in the environment
  // (rendezvous_token.h).
  std::string rendezvous;
  std::shared_ptr<const Tls> tls;  // Of that rendezvous. Null: plaintext.
  std::string tls_name;            // See ChannelOptions.
  uint64_t generation = 0;
  std::string address = "127.0.0.1";  // Numeric; where the other ranks reach this machine.
  v1::Device device = v1::CPU;
  ThreadTeam* team = nullptr;  // Of the rank; see GlooCommunicatorOptions.
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
