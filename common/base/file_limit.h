// The limits of a process for files: how many, and connections, may be open (shells allow only
// 1,024), and how large one may be.
#pragma once

#include <signal.h>
#include <sys/resource.h>

namespace longhaul {

// As many as the system lets it have, and the programs that it starts.
inline void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

// A write beyond the size that the system allows this process (ulimit -f) fails, as on a full disk.
// Without this, the system ends the process. Programs that it starts inherit it.
inline void IgnoreFileSizeSignal() { (void)signal(SIGXFSZ, SIG_IGN); }

}  // namespace longhaul
