// One contender of a benchmark: a server and a client, each a process of its own, so that neither
// allocator settings nor memory of one contender help or disturb another.
#pragma once

#include <sys/types.h>

#include <functional>

namespace longhaul::benchmark {

class ProcessPair {
 public:
  struct Contender {
    // Runs in the server's process; calls `on_port` once it serves.
    std::function<void(const std::function<void(int port)>& on_port)> serve;
    // Runs in the client's process; the result is what is measured, again and again.
    std::function<std::function<void()>(int port)> connect;
  };
  // Forks: construct all pairs before anything starts threads.
  explicit ProcessPair(const Contender& contender);
  // Kills both.
  ~ProcessPair();
  ProcessPair(const ProcessPair&) = delete;
  ProcessPair& operator=(const ProcessPair&) = delete;

  // Has the client do it once; the time on its clock. Ends the process if the client has failed.
  double Seconds();

 private:
  pid_t server_ = 0, client_ = 0;
  int command_ = -1, result_ = -1;
};

}  // namespace longhaul::benchmark
