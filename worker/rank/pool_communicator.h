// Makes the communicator of a rank process with the other ranks of its pool.
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
  // In the pool.
  int rank = 0, ranks = 1;
  // On this machine. It is the number of the rank's device.
  int local_rank = 0;
  // host:port of the rendezvous of node 0's agent. Its token is in the environment
  // (rendezvous_token.h).
  std::string rendezvous;
  // For the rendezvous. Null: plaintext.
  std::shared_ptr<const Tls> tls;
  // See ChannelOptions.
  std::string tls_name;
  uint64_t generation = 0;
  // Numeric address of this machine that the other ranks can reach.
  std::string address = "127.0.0.1";
  v1::Device device = v1::CPU;
  // See GlooCommunicatorOptions.
  ThreadTeam* team = nullptr;
};

struct PoolCommunicator {
  // Null with one rank.
  std::unique_ptr<Communicator> communicator;
  // It works on device memory (nccl).
  bool on_device = false;
  Communicator* get() const { return communicator.get(); }
};

// gloo between ranks on CPUs, nccl between ranks on GPUs, none for one rank. Blocks until all ranks
// are connected, at most 2 minutes. Errors: those of MakeGlooCommunicator and
// MakeNcclCommunicatorFromModule.
absl::StatusOr<PoolCommunicator> MakePoolCommunicator(const PoolCommunicatorOptions& options);

}  // namespace longhaul
