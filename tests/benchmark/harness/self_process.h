// Further processes of a benchmark's own program.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace longhaul::benchmark {

// Runs this program again with other arguments (the first is its name); its standard output is read
// here, its standard input is the parent's. Killed and reaped by the destructor. One thread at a
// time.
class SelfProcess {
 public:
  explicit SelfProcess(const std::vector<std::string>& arguments);
  ~SelfProcess();
  SelfProcess(const SelfProcess&) = delete;

  // The next line, without its end. Blocks. Empty: the process ended, and said why on stderr.
  std::string ReadLine();
  void Kill();

 private:
  pid_t pid_ = 0;
  FILE* output_ = nullptr;
};

}  // namespace longhaul::benchmark
