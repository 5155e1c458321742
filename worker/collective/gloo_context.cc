#include "worker/collective/gloo_context.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "gloo/transport/tcp/address.h"
#include "gloo/transport/tcp/device.h"

// gloo's loop thread takes a connection with try_lock. While another thread of the process sends on
// the connection, the loop calls epoll again and again. If all cores are busy, it takes the
// sender's core for a whole time slice of the scheduler. This definition replaces libc's for this
// program and its libraries: a thread that comes back without having done anything first yields its
// core. Then two ranks on two cores train at 270 steps/s instead of 95 (2026-11-23, dd668d3, a
// decoder of 60,000 parameters; `tests/benchmark/run.sh collective` has the collectives).
extern "C" int epoll_wait(int epoll, epoll_event* events, int events_max, int timeout) {
  using Clock = std::chrono::steady_clock;
  // Reading one message takes longer than this.
  constexpr auto kNothingDone = std::chrono::microseconds(3);
  static const auto next = reinterpret_cast<decltype(&epoll_wait)>(dlsym(RTLD_NEXT, "epoll_wait"));
  thread_local Clock::time_point returned;
  thread_local int idle_returns = 0;
  idle_returns = Clock::now() - returned < kNothingDone ? idle_returns + 1 : 0;
  if (idle_returns >= 2) sched_yield();
  const int ready = next(epoll, events, events_max, timeout);
  returned = Clock::now();
  return ready;
}

namespace longhaul {
namespace {

constexpr uint64_t kProbeSlot = ~uint64_t{1};

// A blob has one record for each rank: the address of the pair that waits for that rank. Its own
// record is zero.
size_t AddressBytes() {
  return gloo::transport::tcp::Address(sockaddr_storage{}, 0).bytes().size();
}

// gloo waits for a connection five times as long as its timeout, and zero means no limit.
std::chrono::milliseconds PairTimeout(absl::Duration timeout) {
  return std::max(absl::ToChronoMilliseconds(timeout / 5), std::chrono::milliseconds(1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GlooContext>> GlooContext::Connect(int rank, int size,
                                                                  const std::string& hostname,
                                                                  Rendezvous& rendezvous,
                                                                  absl::Duration timeout) {
  const SteadyDeadline deadline = SteadyDeadlineIn(timeout);
  std::unique_ptr<GlooContext> context(new GlooContext(rank, size));
  std::string blob;
  try {
    blob = context->Listen(hostname, timeout);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("listening on ", hostname, ": ", error.what()));
  }
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> blobs,
                      rendezvous.Exchange(rank, blob, timeout));
  if (static_cast<int>(blobs.size()) != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous: ", blobs.size(), " blobs for ", size, " ranks"));
  }
  for (int peer = 0; peer < size; ++peer) {
    if (blobs[peer].size() != blob.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rendezvous: rank ", peer, " sent ", blobs[peer].size(),
                       " bytes of addresses instead of ", blob.size()));
    }
  }
  LH_RETURN_IF_ERROR(context->ConnectPairs(blobs, deadline));
  return context;
}

std::string GlooContext::Listen(const std::string& hostname, absl::Duration timeout) {
  gloo::transport::tcp::attr attributes(hostname.c_str());
  device_ = gloo::transport::tcp::CreateDevice(attributes);
  transportContext_ = device_->createContext(rank, size);
  transportContext_->setTimeout(PairTimeout(timeout));
  std::string blob(AddressBytes() * size, '\0');
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::vector<char> address = transportContext_->createPair(peer)->address().bytes();
    std::copy(address.begin(), address.end(), blob.begin() + address.size() * peer);
  }
  probe_ = transportContext_->createUnboundBuffer(&probe_byte_, 1);
  return blob;
}

absl::Status GlooContext::ConnectPairs(const std::vector<std::string>& blobs,
                                       SteadyDeadline deadline) {
  const size_t bytes = AddressBytes();
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const auto record = blobs[peer].begin() + bytes * rank;
    try {
      getPair(peer)->connect(std::vector<char>(record, record + bytes));
    } catch (const std::exception& error) {
      const std::string message = absl::StrCat("connecting to rank ", peer, ": ", error.what());
      if (std::chrono::steady_clock::now() >= deadline) return absl::DeadlineExceededError(message);
      return absl::UnavailableError(message);
    }
  }
  return absl::OkStatus();
}

bool GlooContext::HasFailed(int peer) {
  try {
    probe_->recv(peer, kProbeSlot);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace longhaul
