// The limits of a process for files: how many, and connections, may be open (shells allow only
// 1,024), how large one may be, and who may change it.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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

// Platforms that choose a user for each pod (OpenShift) give it group 0, and its next pod may have
// another user: what one writes to a volume, the other must be able to change. A mask that takes
// rights from a file's owner has no effect either. Programs that this one starts inherit all that.
inline void ShareFilesWithGroupZero() {
  const mode_t mask = umask(077);
  const bool shares = getegid() == 0 && geteuid() != 0;
  (void)umask(mask & ~static_cast<mode_t>(shares ? 0770 : 0700));
}

}  // namespace longhaul
