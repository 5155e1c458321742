// Closes connections whose calls keep ending before the server has answered them: a client that
// resets calls costs the server work that no limit of HTTP/2 bounds (CVE-2023-44487). gRPC counts
// the calls of each connection (its channelz). A thread looks at these counts while many calls
// come; it needs no turn of gRPC's own threads, which such a client keeps busy.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/rpc/call_limit.h"
#include "common/rpc/listener.h"
#include "common/rpc/transport_options.h"

namespace longhaul {

// Of one connection, since its beginning.
struct CallCounts {
  int64_t begun = 0;
  // With a status of the server.
  int64_t answered = 0;
  // By the client, before that.
  int64_t reset = 0;
};

// How many calls a client may reset: it may give up all that it has in progress, and then a few
// each second. And how many a connection may have in progress by gRPC's count: as many as HTTP/2
// permits, and as many again that the server has not done with.
inline constexpr double kResetsPerSecond = 100, kResetsAtOnce = 2 * kConnectionStreamsMax;
inline constexpr int64_t kUnansweredMax = 2 * kConnectionStreamsMax;

// Judges one connection. Not thread-safe.
class ResetLimit {
 public:
  // Whether the connection is to be closed. `now` does not go back.
  bool IsExceeded(const CallCounts& counts, absl::Time now);

 private:
  double room_ = kResetsAtOnce;
  int64_t resets_ = 0;
  absl::Time at_ = absl::InfinitePast();
};

// The counts of all connections of all servers of this process.
struct ConnectionCounts {
  Peer peer;
  CallCounts calls;
};
std::vector<ConnectionCounts> CountCalls();

// Thread-safe. The destructor waits for its thread.
class ResetWatch {
 public:
  // Closes a connection of this server. False: it has no such connection.
  using Close = std::function<bool(const Peer& peer)>;

  // `calls` and what `close` uses outlive it.
  ResetWatch(const CallLimit* calls, Close close);
  ~ResetWatch();
  ResetWatch(const ResetWatch&) = delete;

 private:
  void Run();
  void Look(absl::Time now);

  const CallLimit* const calls_;
  const Close close_;
  // Of the thread.
  std::map<Peer, ResetLimit> limits_;
  // When a connection was closed. Its memory has not been given back since.
  absl::Time closed_at_ = absl::InfiniteFuture();
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace longhaul
