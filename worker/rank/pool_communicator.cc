#include "worker/rank/pool_communicator.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/collective/cuda_module.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/rank/rendezvous_token.h"
#include "worker/rendezvous/rendezvous_client.h"

namespace longhaul {
namespace {

constexpr absl::Duration kMeetingTimeout = absl::Minutes(2);

std::string TokenFromEnvironment() {
  const char* token = std::getenv(kRendezvousTokenVariable);
  return token == nullptr ? "" : token;
}

}  // namespace

absl::StatusOr<PoolCommunicator> MakePoolCommunicator(const PoolCommunicatorOptions& options) {
  if (options.ranks == 1) return PoolCommunicator{};
  RendezvousClient rendezvous({.address = options.rendezvous,
                               .tls = options.tls,
                               .tls_name = options.tls_name,
                               .token = TokenFromEnvironment(),
                               .generation = options.generation,
                               .size = options.ranks});
  const bool cuda = options.device == v1::CUDA;
  LH_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                      cuda ? MakeNcclCommunicatorFromModule({.rank = options.rank,
                                                             .size = options.ranks,
                                                             .device = options.local_rank,
                                                             .rendezvous = &rendezvous,
                                                             .timeout = kMeetingTimeout})
                           : MakeGlooCommunicator({.rank = options.rank,
                                                   .size = options.ranks,
                                                   .hostname = options.address,
                                                   .rendezvous = &rendezvous,
                                                   .timeout = kMeetingTimeout,
                                                   .team = options.team}));
  return PoolCommunicator{std::move(communicator), cuda};
}

}  // namespace longhaul
