// A rank process (longhaul-rank) as its agent sees it: started with a job on its standard input,
// watched through a pipe on which it writes reports (rank_report.h), ended by signals: SIGTERM asks
// it to stop behind its step, SIGKILL ends it.
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
    std::vector<std::string> environment;  // NAME=VALUE, added to this process's own.
    std::string input;                     // What it reads on its standard input.
    Logger log = Logger({});
  };
  // Called on the process's own threads.
  struct Handler {
    std::function<void(const RankReport&)> on_report;
    std::function<void(int exit_code)> on_exit;  // RankExit, or 128 + signal. Once, last.
    // A line of its standard error, without its end; at most kLogLineMax bytes of it at a time.
    // Empty: the process writes to this one's. Also called while it is being ended.
    std::function<void(absl::string_view line)> on_log;
  };
  // Call on a thread that lives as long as the process should: the kernel ends a rank when the
  // thread that started it ends (PR_SET_PDEATHSIG), so that no rank outlives its agent. Errors:
  // those of the system.
  static absl::StatusOr<std::unique_ptr<RankProcess>> Start(const Options& options,
                                                            Handler handler);
  // Kills the process if it lives, and waits for it.
  ~RankProcess();

  // To the process, if it lives.
  void Signal(int signal);
  // SIGKILL. Blocks until the process has ended.
  void Kill();
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
  std::jthread log_thread_;  // Until nobody can write to the process's standard error any more.
  std::jthread thread_;
};

}  // namespace longhaul
