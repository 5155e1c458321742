// SIGTERM and SIGINT of a daemon. The first one asks it to stop, the second one ends it at once. If
// it has not ended some time after the first one, it is ended with kExitStuck and a line that says
// what stands still: a disk or a pipe may hold up any of its threads without end.
#pragma once

#include <signal.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/logging/logging.h"

namespace longhaul {

// Thread-safe. It lives as long as the process, with a thread of its own.
class StopDeadline {
 public:
  struct Options {
    // After the first signal: for the whole end, and for an end that something holds up.
    absl::Duration patience, stuck_patience;
    // What stands still, in words, or nothing. Must not block. May be empty.
    std::function<std::string()> stands;
    // Called on the thread once the first signal has come. Must not block.
    std::function<void()> on_stop;
    // The exit code of the second signal. 0: 128 + its number.
    int second_exit = 0;
    Logger log = Logger({});
  };
  // `signals`: of BlockStopSignals. Call it before anything that may wait for a disk.
  static StopDeadline& Start(const sigset_t& signals, Options options);

  // The work is over: the rest of the end may take at most so long.
  void EndWithin(absl::Duration rest) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit StopDeadline(Options options) : options_(std::move(options)) {}
  void Run(const sigset_t& signals);
  // Why the program must end now. Empty: it need not.
  std::string Overdue(absl::Time asked) ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  absl::Mutex mutex_;
  absl::Time rest_until_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace longhaul
