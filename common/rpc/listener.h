// Accepts the connections of a server, in place of gRPC: when a process has no file left for a
// connection, gRPC ends its own listener for good (CVE-2023-4785). A quarter of the files that the
// process may have open is kept for everything else: connections beyond that are closed at once. It
// knows the connections that it gave away, and can end one of them. Who connects in vain again and
// again is refused (visit_limit.h).
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/host_port.h"
#include "common/rpc/visit_limit.h"

namespace longhaul {

// Whether only this machine can reach a listener at that host: as IsLoopback, or by a name whose
// addresses are all of this kind. Blocks while a name is resolved. An unknown name: false.
bool IsReachedFromHereAlone(const std::string& host);

// The other end of a connection: the bytes of its address (4 or 16), and its port.
struct Peer {
  std::string address;
  int port = 0;
  friend auto operator<=>(const Peer&, const Peer&) = default;
};

// From gRPC's text of it, as ipv4:10.0.0.1:4711. Empty: it is of another kind.
Peer PeerFromText(absl::string_view text);

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

  // The connection with this peer has carried a call, so it was not made in vain.
  void Used(const Peer& peer) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the connection with this peer at once: what it has sent and was not read is lost. Its
  // owner finds it broken. False: no connection that is open was accepted from there.
  bool Close(const Peer& peer) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Accepted {
    Peer peer;
    // The kernel's number of the socket. It tells whether the file is still the same.
    uint64_t cookie = 0;
    absl::Time since;
    bool used = false;
  };
  explicit Listener(std::vector<int> sockets) : sockets_(std::move(sockets)) {}
  void Run(const Take& take) ABSL_LOCKS_EXCLUDED(mutex_);
  // Remembers a connection. False: it is to be refused.
  bool Keep(int connection, const Peer& peer, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<int> sockets_;
  int port_ = 0;
  // Readable when the thread must end.
  int stop_ = -1;
  std::thread thread_;
  absl::Mutex stopping_;
  absl::Mutex mutex_;
  // By file. One that has ended stays until its number is used again.
  std::map<int, Accepted> accepted_ ABSL_GUARDED_BY(mutex_);
  std::map<Peer, int> files_ ABSL_GUARDED_BY(mutex_);
  VisitLimit visits_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
