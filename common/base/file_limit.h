// The limits of a process for files: how many, and connections, may be open (shells allow only
// 1,024), how large one may be, and who may change it.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"

namespace longhaul {

// As many as the system lets it have, and the programs that it starts.
inline void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

// Files and connections that are open at one time: of a coordinator with a job and some pools, a
// call of the CLI, an agent, and a rank with small data. Those of the threads of gRPC are among
// them.
int CoordinatorFilesNeeded();
int CliFilesNeeded();
int AgentFilesNeeded(int ranks);
int RankFilesNeeded(int ranks_of_pool);

// RESOURCE_EXHAUSTED: the system does not let this process have so many files open; the message
// names the limit (ulimit -n) with its value.
absl::Status CheckFiles(int needed);
// For messages after this error of the system: " (ulimit -n is 1024: raise it, ...)", or "" if the
// error is not that the process has too many files open.
std::string FileLimitWords(int error);

// A write beyond the size that the system allows this process (ulimit -f) fails, as on a full disk.
// Without this, the system ends the process. Programs that it starts inherit it.
inline void IgnoreFileSizeSignal() { (void)signal(SIGXFSZ, SIG_IGN); }

// Platforms that choose a user for each pod (OpenShift) give it group 0, and its next pod may have
// another user: what one writes to a volume, the other must be able to change.
inline bool SharesFilesWithGroupZero() { return getegid() == 0 && geteuid() != 0; }

// Sets the mask of new files accordingly. A mask that takes rights from a file's owner has no
// effect, nor has one that lets all users write. Programs that this one starts inherit it.
inline void ShareFilesWithGroupZero() {
  const mode_t mask = umask(077);
  (void)umask((mask & ~static_cast<mode_t>(SharesFilesWithGroupZero() ? 0770 : 0700)) | 0002);
}

}  // namespace longhaul
