// A rank process (longhaul-rank) from its agent's side. It is started with a job on its standard
// input, and watched through a pipe on which it writes reports (rank_report.h). SIGTERM asks it to
// stop after its current step; SIGKILL ends it. It leads a process group of its own: the programs
// that it starts end with it, and a terminal's signals reach the agent alone.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/logging/logging.h"
#include "worker/agent/rank_report.h"

namespace longhaul {

// The file descriptor on which a rank reports.
inline constexpr int kReportDescriptor = 3;

class RankProcess {
 public:
  struct Options {
    std::string program;
    std::vector<std::string> arguments;
    // NAME=VALUE, added to what stays of this process's own environment (ComputeEnvironmentOf).
    std::vector<std::string> environment;
    // What the process reads on its standard input.
    std::string input;
    Logger log = Logger({});
  };
  // Called on the process's own threads.
  struct Handler {
    std::function<void(const RankReport&)> on_report;
    // RankExit, or 128 + signal. Called once, last; not after a Kill that returned false.
    std::function<void(int exit_code)> on_exit;
    // Called with a line of its standard error, without its end, at most kLogLineMax bytes at a
    // time. Also called while the process is being ended. Empty: the process writes to this one's
    // standard error.
    std::function<void(absl::string_view line)> on_log;
  };
  // Call on a thread that lives as long as the process should: the kernel ends a rank when the
  // thread that started it ends (PR_SET_PDEATHSIG), so that no rank outlives its agent. Does not
  // wait for the process to read. Errors: those of the system.
  static absl::StatusOr<std::unique_ptr<RankProcess>> Start(const Options& options,
                                                            Handler handler);
  // Kills the process if it lives, and waits for it.
  ~RankProcess();

  // Sends the signal to the process, if it lives; SIGKILL to its whole group.
  void Signal(int signal);
  // Sends SIGKILL, and blocks until the process has ended. False: it has not ended after
  // `patience`, as the system does not end a process that is in a call to a disk or device which
  // does not answer. Then its end is not reported any more, and the destructor would wait for it.
  bool Kill(absl::Duration patience);
  pid_t pid() const { return pid_; }

 private:
  static constexpr size_t kLogLineMax = 64 << 10;
  RankProcess(pid_t pid, int report, int lines, Logger log, Handler handler);
  void Watch(int pipe);
  void PassOn(int pipe);

  const pid_t pid_;
  const Logger log_;
  const Handler handler_;
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // Nobody wants to know its end any more.
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  // Runs until no process can write to the process's standard error any more: none of its group
  // lives.
  std::jthread log_thread_;
  std::jthread thread_;
};

}  // namespace longhaul
