#include "tests/unit/common/rpc/tapped_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace longhaul {
namespace {

// RFC 9113, sections 3.4, 4.1 and 6.
constexpr size_t kPrefaceBytes = 24, kFrameHeaderBytes = 9, kGoawayFixedBytes = 8;
constexpr uint8_t kPing = 6, kGoaway = 7, kAck = 1;

// Cuts a direction's bytes into frames.
class FrameReader {
 public:
  using OnFrame = std::function<void(uint8_t type, uint8_t flags, const std::string& payload)>;
  explicit FrameReader(size_t preface_bytes) : skip_(preface_bytes) {}

  void Add(const char* data, size_t size, const OnFrame& on_frame) {
    pending_.append(data, size);
    const size_t skipped = std::min(skip_, pending_.size());
    pending_.erase(0, skipped);
    skip_ -= skipped;
    while (pending_.size() >= kFrameHeaderBytes) {
      const auto byte = [this](size_t i) { return static_cast<uint8_t>(pending_[i]); };
      const size_t length = byte(0) << 16 | byte(1) << 8 | byte(2);
      if (pending_.size() < kFrameHeaderBytes + length) return;
      on_frame(byte(3), byte(4), pending_.substr(kFrameHeaderBytes, length));
      pending_.erase(0, kFrameHeaderBytes + length);
    }
  }

 private:
  size_t skip_;
  std::string pending_;
};

}  // namespace

TappedLink::TappedLink(int server_port)
    : server_port_(server_port), listener_(ListenTcp(8)), acceptor_([this] { Accept(); }) {}

TappedLink::~TappedLink() {
  shutdown(listener_.socket, SHUT_RDWR);
  acceptor_.join();
  std::vector<std::jthread> forwarders;
  {
    absl::MutexLock lock(&mutex_);
    for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
    forwarders.swap(forwarders_);
  }
  // Joins the threads.
  forwarders.clear();
  absl::MutexLock lock(&mutex_);
  for (const int socket : sockets_) close(socket);
  close(listener_.socket);
}

std::string TappedLink::address() const { return absl::StrCat("127.0.0.1:", listener_.port); }

void TappedLink::Accept() {
  for (int client; (client = accept(listener_.socket, nullptr, nullptr)) >= 0;) {
    const int server = ConnectTcp(server_port_);
    if (server < 0) {
      close(client);
      continue;
    }
    absl::MutexLock lock(&mutex_);
    sockets_.insert(sockets_.end(), {client, server});
    forwarders_.emplace_back([this, client, server] { Forward(client, server, true); });
    forwarders_.emplace_back([this, client, server] { Forward(server, client, false); });
  }
}

void TappedLink::Forward(int from, int to, bool from_client) {
  FrameReader frames(from_client ? kPrefaceBytes : 0);
  char buffer[4096];
  for (ssize_t n; (n = recv(from, buffer, sizeof(buffer), 0)) > 0;) {
    if (silent_) continue;
    frames.Add(buffer, n, [&](uint8_t type, uint8_t flags, const std::string& payload) {
      OnFrame(from_client, type, flags, payload);
    });
    if (!SendAll(to, {reinterpret_cast<const uint8_t*>(buffer), static_cast<size_t>(n)})) return;
  }
  if (!silent_) shutdown(to, SHUT_RDWR);
}

void TappedLink::OnFrame(bool from_client, uint8_t type, uint8_t flags,
                         const std::string& payload) {
  absl::MutexLock lock(&mutex_);
  if (from_client && type == kPing && (flags & kAck) == 0) ++pings_;
  if (!from_client && type == kGoaway && goaway_.empty() && payload.size() > kGoawayFixedBytes) {
    goaway_ = payload.substr(kGoawayFixedBytes);
  }
}

bool TappedLink::WaitForPings(int count) {
  absl::MutexLock lock(&mutex_);
  const auto done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return pings_ >= count || !goaway_.empty();
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&done), absl::Minutes(1));
}

std::string TappedLink::goaway() const {
  absl::MutexLock lock(&mutex_);
  return goaway_;
}

}  // namespace longhaul
