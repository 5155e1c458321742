#include "worker/collective/tcp_rendezvous_client.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/collective/rendezvous_wire.h"
#include "worker/collective/tcp_socket.h"

namespace longhaul {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kRetryInterval(50);

// DEADLINE_EXCEEDED: `events` did not happen until the deadline.
absl::Status WaitFor(int fd, short events, Clock::time_point deadline, absl::string_view what) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0)
      return absl::DeadlineExceededError(absl::StrCat("rendezvous: deadline passed while ", what));
    pollfd poll_fd{fd, events, 0};
    if (poll(&poll_fd, 1, static_cast<int>(std::min<int64_t>(left.count(), 60'000))) > 0)
      return absl::OkStatus();
  }
}

absl::StatusOr<FileDescriptor> ConnectOnce(const TcpRendezvousClient::Options& options,
                                           Clock::time_point deadline) {
  LH_ASSIGN_OR_RETURN(FileDescriptor socket, StartConnecting(options.address, options.port));
  LH_RETURN_IF_ERROR(WaitFor(socket.get(), POLLOUT, deadline, "connecting"));
  LH_RETURN_IF_ERROR(ConnectionError(socket.get()));
  return socket;
}

absl::StatusOr<FileDescriptor> Connect(const TcpRendezvousClient::Options& options,
                                       Clock::time_point deadline) {
  for (;;) {
    absl::StatusOr<FileDescriptor> socket = ConnectOnce(options, deadline);
    if (socket.ok() || !absl::IsUnavailable(socket.status()) ||
        Clock::now() + kRetryInterval >= deadline) {
      return socket;
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
}

absl::Status SendAll(int fd, absl::string_view bytes, Clock::time_point deadline) {
  size_t offset = 0;
  while (offset < bytes.size()) {
    LH_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline, "sending"));
    LH_ASSIGN_OR_RETURN(offset, WriteAvailable(fd, bytes, offset));
  }
  return absl::OkStatus();
}

}  // namespace

TcpRendezvousClient::TcpRendezvousClient(Options options) : options_(std::move(options)) {}

absl::StatusOr<std::vector<std::string>> TcpRendezvousClient::Exchange(int rank, std::string blob,
                                                                       absl::Duration timeout) {
  if (rank < 0 || rank >= options_.size || options_.size > static_cast<int>(kRendezvousRanksMax) ||
      blob.size() > kRendezvousBlobBytesMax || options_.token.size() > kRendezvousTokenBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous: rank ", rank, " of ", options_.size,
                                                   ", a blob of ", blob.size(),
                                                   " bytes, a token of ", options_.token.size()));
  }
  const auto deadline =
      Clock::now() + absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24 * 365)));
  LH_ASSIGN_OR_RETURN(const FileDescriptor socket, Connect(options_, deadline));
  const RendezvousRequest request{options_.generation, static_cast<uint32_t>(rank),
                                  std::move(blob)};
  LH_RETURN_IF_ERROR(SendAll(socket.get(), EncodeRequest(options_.token, request), deadline));

  const size_t reply_bytes_max = 8 + options_.size * (4 + kRendezvousBlobBytesMax);
  std::string bytes;
  for (;;) {
    LH_RETURN_IF_ERROR(WaitFor(socket.get(), POLLIN, deadline, "waiting for the other ranks"));
    LH_ASSIGN_OR_RETURN(const bool ended, ReadAvailable(socket.get(), reply_bytes_max, &bytes));
    auto reply = DecodeReply(bytes, options_.size);
    if (reply.has_value()) return *std::move(reply);
    if (ended) return absl::UnavailableError("rendezvous: the server closed the connection");
  }
}

}  // namespace longhaul
