#include "tests/benchmark/harness/self_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"

namespace longhaul::benchmark {

SelfProcess::SelfProcess(const std::vector<std::string>& arguments) {
  int ends[2];
  LH_CHECK(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
  std::vector<char*> pointers;
  for (const std::string& argument : arguments)
    pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  pid_ = fork();
  LH_CHECK(pid_ >= 0, "no process");
  if (pid_ == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execv("/proc/self/exe", pointers.data());
    _exit(127);
  }
  close(ends[1]);
  output_ = fdopen(ends[0], "r");
}

SelfProcess::~SelfProcess() {
  Kill();
  waitpid(pid_, nullptr, 0);
  fclose(output_);
}

std::string SelfProcess::ReadLine() {
  char line[8192];
  if (fgets(line, sizeof(line), output_) == nullptr) return "";
  std::string result = line;
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

void SelfProcess::Kill() { kill(pid_, SIGKILL); }

}  // namespace longhaul::benchmark
