// How many files and connections a process may have open. Shells allow only 1,024.
#pragma once

#include <sys/resource.h>

namespace longhaul {

// As many as the system lets it have, and the programs that it starts.
inline void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace longhaul
