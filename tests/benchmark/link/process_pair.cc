#include "tests/benchmark/link/process_pair.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "common/base/check.h"
#include "tests/benchmark/harness/row.h"

namespace longhaul::benchmark {
namespace {

struct Pipe {
  Pipe() { LH_CHECK(pipe(ends) == 0, "a pipe"); }
  int ends[2];
};

template <typename T>
T Receive(int from) {
  T value;
  LH_CHECK(read(from, &value, sizeof(value)) == sizeof(value), "the other process answers");
  return value;
}

template <typename T>
void Send(int to, const T& value) {
  LH_CHECK(write(to, &value, sizeof(value)) == sizeof(value), "the other process listens");
}

pid_t Fork(const std::function<void()>& work) {
  const pid_t process = fork();
  LH_CHECK(process >= 0, "a process");
  if (process > 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  work();
  _exit(0);
}

}  // namespace

ProcessPair::ProcessPair(const Contender& contender) {
  const Pipe port, command, result;
  // A copy of an end that is written to would keep its reader from noticing that the writer is
  // gone.
  server_ = Fork([&] {
    close(command.ends[1]);
    close(result.ends[1]);
    contender.serve([&](int number) { Send(port.ends[1], number); });
  });
  client_ = Fork([&] {
    close(command.ends[1]);
    close(port.ends[1]);
    const std::function<void()> work = contender.connect(Receive<int>(port.ends[0]));
    for (char go; read(command.ends[0], &go, 1) == 1;) {
      Send(result.ends[1], benchmark::Seconds(work));
    }
  });
  for (const int end : {port.ends[0], port.ends[1], command.ends[0], result.ends[1]}) close(end);
  command_ = command.ends[1];
  result_ = result.ends[0];
}

ProcessPair::~ProcessPair() {
  for (const pid_t process : {client_, server_}) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
  close(command_);
  close(result_);
}

double ProcessPair::Seconds() {
  Send(command_, 'g');
  return Receive<double>(result_);
}

}  // namespace longhaul::benchmark
