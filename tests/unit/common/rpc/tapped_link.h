// A TCP connection between a client and a server of this machine. A test can listen to it, and can
// make it silent: bytes stop, but the connection stays. Only for plaintext HTTP/2.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/testing/tcp.h"

namespace longhaul {

// Thread-safe.
class TappedLink {
 public:
  // Forwards to this port of 127.0.0.1.
  explicit TappedLink(int server_port);
  // Closes everything.
  ~TappedLink();

  // The address that the client dials.
  std::string address() const;
  // From now on nothing passes in either direction, not even the end of the connection.
  void FallSilent() { silent_ = true; }

  // Waits until the client has sent so many PING frames that are not answers, or the server has
  // sent a GOAWAY. Returns false if neither came within a minute.
  bool WaitForPings(int count) ABSL_LOCKS_EXCLUDED(mutex_);
  // The debug text of the server's first GOAWAY frame. Empty: there was none yet.
  std::string goaway() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Accept();
  void Forward(int from, int to, bool from_client);
  // Called for each frame that passes.
  void OnFrame(bool from_client, uint8_t type, uint8_t flags, const std::string& payload)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const int server_port_;
  const TcpListener listener_;
  std::atomic<bool> silent_ = false;

  mutable absl::Mutex mutex_;
  int pings_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string goaway_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> sockets_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> forwarders_ ABSL_GUARDED_BY(mutex_);
  std::jthread acceptor_;
};

}  // namespace longhaul
