#include "worker/agent/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "common/base/compute_environment.h"

extern char** environ;

namespace longhaul {
namespace {

// A pipe, or a file that is only read.
struct Pipe {
  int read = -1, write = -1;
  ~Pipe() {
    if (read >= 0) close(read);
    if (write >= 0) close(write);
  }
  absl::Status Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "making a pipe for a rank");
    read = ends[0];
    write = ends[1];
    return absl::OkStatus();
  }
  // A pipe blocks who writes it, once it is full and nobody reads. A file in memory does not.
  absl::Status OpenFile(absl::string_view text) {
    read = memfd_create("rank input", MFD_CLOEXEC);
    while (read >= 0 && !text.empty()) {
      const ssize_t n = ::write(read, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) break;
      text.remove_prefix(n);
    }
    if (text.empty() && lseek(read, 0, SEEK_SET) == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, "making the input of a rank");
  }
};

// `lines`: the descriptor of its standard error. Negative: that of this process.
absl::StatusOr<pid_t> Spawn(const RankProcess::Options& options, int input, int report, int lines) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  // Must come before the report, since `lines` may have the report's number.
  if (lines >= 0) posix_spawn_file_actions_adddup2(&actions, lines, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, report, kReportDescriptor);
  std::vector<std::string> arguments = {options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  ComputeEnvironment environment = ComputeEnvironmentOf(environ, options.environment);
  // The agent blocks the signals that end a rank, so they must be unblocked for it.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  // The rank leads a process group of its own, with which the programs that it starts end.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid;
  const int error =
      posix_spawn(&pid, options.program.c_str(), &actions, &attributes,
                  PointersTo(arguments).data(), PointersTo(environment.variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::ErrnoToStatus(error, "starting " + options.program);
  return pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankProcess>> RankProcess::Start(const Options& options,
                                                                Handler handler) {
  Pipe input, report, lines;
  if (absl::Status status = input.OpenFile(options.input); !status.ok()) return status;
  if (absl::Status status = report.Open(); !status.ok()) return status;
  if (absl::Status status = handler.on_log ? lines.Open() : absl::OkStatus(); !status.ok())
    return status;
  // Neither pipe may have the report's number already: dup2 of a descriptor onto itself does not
  // reliably clear its close-on-exec flag, and dup2 onto the input would close it.
  if (report.write == kReportDescriptor || input.read == kReportDescriptor) {
    int& low = report.write == kReportDescriptor ? report.write : input.read;
    const int high = fcntl(low, F_DUPFD_CLOEXEC, 10);
    if (high < 0) return absl::ErrnoToStatus(errno, "making a pipe for a rank");
    close(std::exchange(low, high));
  }
  absl::StatusOr<pid_t> pid = Spawn(options, input.read, report.write, lines.write);
  if (!pid.ok()) return pid.status();
  return std::unique_ptr<RankProcess>(new RankProcess(*pid, std::exchange(report.read, -1),
                                                      std::exchange(lines.read, -1), options.log,
                                                      std::move(handler)));
}

RankProcess::RankProcess(pid_t pid, int report, int lines, Logger log, Handler handler)
    : pid_(pid), log_(std::move(log)), handler_(std::move(handler)) {
  if (lines >= 0) log_thread_ = std::jthread([this, lines] { PassOn(lines); });
  thread_ = std::jthread([this, report] { Watch(report); });
}

RankProcess::~RankProcess() { Signal(SIGKILL); }

void RankProcess::Watch(int pipe) {
  FILE* file = fdopen(pipe, "r");
  char* line = nullptr;
  size_t capacity = 0;
  for (ssize_t n; (n = getline(&line, &capacity, file)) > 0;) {
    const absl::StatusOr<RankReport> report = ParseRankReport({line, static_cast<size_t>(n)});
    if (!report.ok()) {
      log_.Error("the rank process wrote a malformed report");
      continue;
    }
    handler_.on_report(*report);
  }
  free(line);
  fclose(file);
  // waitid leaves a zombie, so that no signal can reach another process that got the same number.
  siginfo_t info = {};
  while (waitid(P_PID, pid_, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  bool wanted;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    wanted = !given_up_;
    // What is left of its group.
    kill(-pid_, SIGKILL);
    int status;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (wanted) handler_.on_exit(info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status);
}

void RankProcess::PassOn(int pipe) {
  std::string buffer(kLogLineMax, '\0');
  size_t held = 0;
  for (;;) {
    const ssize_t n = read(pipe, buffer.data() + held, buffer.size() - held);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    held += n;
    size_t begin = 0;
    for (size_t end; (end = absl::string_view(buffer.data(), held).find('\n', begin)) !=
                     absl::string_view::npos;
         begin = end + 1) {
      handler_.on_log(absl::string_view(buffer.data() + begin, end - begin));
    }
    // A line that is longer than the buffer.
    if (begin == 0 && held == buffer.size()) {
      handler_.on_log(buffer);
      begin = held;
    }
    held -= begin;
    buffer.replace(0, held, buffer, begin, held);
    buffer.resize(kLogLineMax);
  }
  if (held > 0) handler_.on_log(absl::string_view(buffer.data(), held));
  close(pipe);
}

void RankProcess::Signal(int signal) {
  absl::MutexLock lock(&mutex_);
  if (!ended_) kill(signal == SIGKILL ? -pid_ : pid_, signal);
}

bool RankProcess::Kill(absl::Duration patience) {
  Signal(SIGKILL);
  {
    absl::MutexLock lock(&mutex_);
    given_up_ = !mutex_.AwaitWithTimeout(absl::Condition(&ended_), patience);
    if (given_up_) return false;
  }
  if (thread_.joinable()) thread_.join();
  return true;
}

}  // namespace longhaul
