#include "worker/rank/pool_communicator.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "worker/collective/communicator_factory.h"
#include "worker/collective/tcp_rendezvous_client.h"
#include "worker/rank/rendezvous_token.h"

namespace longhaul {
namespace {

constexpr absl::Duration kMeetingTimeout = absl::Minutes(2);

absl::StatusOr<TcpRendezvousClient::Options> RendezvousOptions(
    const PoolCommunicatorOptions& options) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(options.rendezvous, absl::MaxSplits(':', 1));
  TcpRendezvousClient::Options result{
      .address = parts.first, .generation = options.generation, .size = options.ranks};
  uint32_t port;
  if (!absl::SimpleAtoi(parts.second, &port) || port == 0 || port > 65535) {
    return absl::InvalidArgumentError("--rendezvous is not HOST:PORT");
  }
  result.port = static_cast<uint16_t>(port);
  if (const char* token = std::getenv(kRendezvousTokenVariable)) result.token = token;
  return result;
}

}  // namespace

absl::StatusOr<PoolCommunicator> MakePoolCommunicator(const PoolCommunicatorOptions& options) {
  if (options.ranks == 1) return PoolCommunicator{};
  LH_ASSIGN_OR_RETURN(const TcpRendezvousClient::Options meeting, RendezvousOptions(options));
  TcpRendezvousClient rendezvous(meeting);
  const bool cuda = options.device == v1::CUDA;
  LH_ASSIGN_OR_RETURN(
      std::unique_ptr<Communicator> communicator,
      MakeCommunicator({.kind = cuda ? CommunicatorKind::kNccl : CommunicatorKind::kGloo,
                        .rank = options.rank,
                        .size = options.ranks,
                        .rendezvous = &rendezvous,
                        .timeout = kMeetingTimeout,
                        .device = options.rank}));
  return PoolCommunicator{std::move(communicator), cuda};
}

}  // namespace longhaul
