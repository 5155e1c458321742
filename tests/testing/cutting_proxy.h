// A TCP proxy on a free port of this machine that loses connections: of each connection it forwards
// so many bytes in one direction, then closes both ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/testing/tcp.h"

namespace longhaul {

// Thread-safe.
class CuttingProxy {
 public:
  enum class Direction { kUp, kDown };  // To the target; from it.
  struct Options {
    int target_port = 0;  // On this machine.
    Direction direction = Direction::kUp;
    int64_t bytes_each = 0;  // What a connection carries in that direction.
    int cuts = 1;            // Connections that are cut; later ones carry everything.
  };
  explicit CuttingProxy(Options options);
  // Closes every connection.
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  std::string address() const;
  int cuts() const { return cuts_; }  // Connections cut so far.

 private:
  struct Connection {
    int client = -1, target = -1;
    std::thread up, down;
  };
  void Accept();
  // Forwards until the end of a stream, or until `bytes` were (below 0: no limit).
  void Pump(int from, int to, int64_t bytes);

  const Options options_;
  const TcpListener listener_;
  std::atomic<int> cuts_ = 0;
  absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::thread accept_;  // Last: it runs from here on.
};

}  // namespace longhaul
