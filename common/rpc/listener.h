// Accepts the connections of a server, in place of gRPC: when a process has no file left for a
// connection, gRPC ends its own listener for good (CVE-2023-4785). A quarter of the files that the
// process may have open is kept for everything else: connections beyond that are closed at once.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/host_port.h"

namespace longhaul {

// Whether only this machine can reach a listener at that host: as IsLoopback, or by a name whose
// addresses are all of this kind. Blocks while a name is resolved. An unknown name: false.
bool IsReachedFromHereAlone(const std::string& host);

// Start comes before the other calls; Stop is thread-safe.
class Listener {
 public:
  // Takes a connection, which it owns then.
  using Take = std::function<void(int connection)>;

  // Listens at all addresses of the host, 0.0.0.0 and :: at all of the machine. Port 0: any free
  // one. `silence_max`: how long a peer may not acknowledge what was sent. UNAVAILABLE: as
  // ListenFault.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const HostPort& address,
                                                        absl::Duration silence_max);
  // As Stop.
  ~Listener();
  Listener(const Listener&) = delete;

  int port() const { return port_; }

  // `take` is called on a thread of its own until Stop. Call once.
  void Start(Take take);
  // Nobody is accepted any more, and new clients are refused. Waits for a `take` in progress. Later
  // calls do nothing.
  void Stop() ABSL_LOCKS_EXCLUDED(stopping_);

 private:
  explicit Listener(std::vector<int> sockets) : sockets_(std::move(sockets)) {}
  void Run(const Take& take) const;

  std::vector<int> sockets_;
  int port_ = 0;
  // Readable when the thread must end.
  int stop_ = -1;
  std::thread thread_;
  absl::Mutex stopping_;
};

}  // namespace longhaul
