// Further processes of a benchmark.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace longhaul::benchmark {

// A process whose standard output is read here. Its standard input is the parent's. Killed and
// reaped by the destructor, and killed when the parent ends. One thread at a time.
class ChildProcess {
 public:
  // Runs `work` in a copy of this process, which ends with the code that `work` returns. It need
  // not load the libraries again. This process must have one thread, since the copy has no other.
  explicit ChildProcess(const std::function<int()>& work);
  // Runs this program again with other arguments (the first is its name).
  explicit ChildProcess(const std::vector<std::string>& arguments);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;

  // The next line, without its end. Blocks. Empty: the process ended, and said why on stderr.
  std::string ReadLine();
  void Kill();

 private:
  pid_t pid_ = 0;
  FILE* output_ = nullptr;
};

}  // namespace longhaul::benchmark
