// A TCP proxy on a free port of this machine that breaks connections: it forwards so many bytes of
// each connection in one direction, then closes both ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tests/testing/tcp.h"

namespace longhaul {

// Thread-safe.
class CuttingProxy {
 public:
  // kUp is to the target, kDown from it.
  enum class Direction { kUp, kDown };
  struct Options {
    // On this machine.
    int target_port = 0;
    Direction direction = Direction::kUp;
    // How many bytes a connection carries in that direction.
    int64_t bytes_each = 0;
    // How many connections are cut. Later ones carry everything.
    int cuts = 1;
    // How long a connection stands still before its cut. Without that the receiver may lose all
    // that it has not read yet.
    absl::Duration pause;
    // Above 0: only connections whose segments may be larger are cut, and all of those: large
    // packets vanish, and small ones pass.
    int segment_bytes_max = 0;
  };
  explicit CuttingProxy(Options options);
  // Closes every connection.
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  std::string address() const;
  // Connections cut so far.
  int cuts() const { return cuts_; }

 private:
  struct Connection {
    int client = -1, target = -1;
    std::thread up, down;
  };
  void Accept();
  // The number of the connection, from 0.
  bool Cuts(int number, int client) const;
  // Forwards until the end of a stream, or until `bytes` were forwarded (below 0: no limit).
  void Pump(int from, int to, int64_t bytes);

  const Options options_;
  const TcpListener listener_;
  std::atomic<int> cuts_ = 0;
  absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Connection> connections_ ABSL_GUARDED_BY(mutex_);
  // The last member, since it runs from here on.
  std::thread accept_;
};

}  // namespace longhaul
