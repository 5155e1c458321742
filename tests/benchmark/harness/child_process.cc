#include "tests/benchmark/harness/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"

namespace longhaul::benchmark {

ChildProcess::ChildProcess(const std::function<int()>& work) {
  int ends[2];
  LH_CHECK(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
  pid_ = fork();
  LH_CHECK(pid_ >= 0, "no process");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(ends[1], STDOUT_FILENO);
    _exit(work());
  }
  close(ends[1]);
  output_ = fdopen(ends[0], "r");
}

ChildProcess::ChildProcess(const std::vector<std::string>& arguments)
    : ChildProcess([&arguments] {
        std::vector<char*> pointers;
        for (const std::string& argument : arguments)
          pointers.push_back(const_cast<char*>(argument.c_str()));
        pointers.push_back(nullptr);
        execv("/proc/self/exe", pointers.data());
        return 127;
      }) {}

ChildProcess::~ChildProcess() {
  Kill();
  waitpid(pid_, nullptr, 0);
  fclose(output_);
}

std::string ChildProcess::ReadLine() {
  char line[8192];
  if (fgets(line, sizeof(line), output_) == nullptr) return "";
  std::string result = line;
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

void ChildProcess::Kill() { kill(pid_, SIGKILL); }

}  // namespace longhaul::benchmark
