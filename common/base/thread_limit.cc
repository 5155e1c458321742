#include "common/base/thread_limit.h"

#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"

namespace longhaul {
namespace {

// gRPC starts some threads for each core, up to a number of them.
int ThreadsOfGrpc() {
  return 2 * std::clamp<int>(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
}

void* AwaitNotification(void* done) {
  static_cast<absl::Notification*>(done)->WaitForNotification();
  return nullptr;
}

// How many of `needed` threads can run at once.
int CountThreads(int needed) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return 0;
  (void)pthread_attr_setstacksize(&attributes, std::max<size_t>(PTHREAD_STACK_MIN, 128 << 10));
  absl::Notification done;
  std::vector<pthread_t> threads;
  pthread_t thread;
  while (static_cast<int>(threads.size()) < needed &&
         pthread_create(&thread, &attributes, AwaitNotification, &done) == 0)
    threads.push_back(thread);
  done.Notify();
  for (const pthread_t each : threads) pthread_join(each, nullptr);
  pthread_attr_destroy(&attributes);
  return static_cast<int>(threads.size());
}

std::string FirstLine(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// The smallest pids.max of this process's cgroup and those above it, of either version. Empty:
// there is none. In a container its own cgroup may be the root of what it sees.
std::string PidsMax(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  long smallest = 0;
  const auto look = [&](const std::string& folder) {
    long value = 0;
    if (std::istringstream(FirstLine(folder + "/pids.max")) >> value)
      smallest = smallest == 0 ? value : std::min(smallest, value);
  };
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool is_second = parts[1].empty();
    if (!is_second && !absl::StrContains(absl::StrCat(",", parts[1], ","), ",pids,")) continue;
    const std::string mount = root + (is_second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids");
    look(mount);
    std::string folder;
    for (const absl::string_view name : absl::StrSplit(parts[2], '/', absl::SkipEmpty())) {
      absl::StrAppend(&folder, "/", name);
      look(mount + folder);
    }
  }
  return smallest == 0 ? "" : absl::StrCat(smallest);
}

}  // namespace

int CoordinatorThreadsNeeded() { return 27 + ThreadsOfGrpc(); }
int CliThreadsNeeded() { return 8 + ThreadsOfGrpc(); }
int RankThreadsNeeded(int threads) { return 16 + threads + ThreadsOfGrpc(); }
int AgentThreadsNeeded(int ranks, int threads_of_rank) {
  return 14 + ThreadsOfGrpc() + ranks * (4 + RankThreadsNeeded(threads_of_rank));
}

absl::Status CheckThreads(int needed, const std::string& root) {
  const int possible = CountThreads(needed);
  if (possible == needed) return absl::OkStatus();
  std::vector<std::string> limits;
  rlimit limit{};
  if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.push_back(absl::StrCat("ulimit -u is ", limit.rlim_cur));
  if (const std::string pids = PidsMax(root); !pids.empty())
    limits.push_back(absl::StrCat("pids.max of the cgroup is ", pids));
  return absl::ResourceExhaustedError(absl::StrCat(
      "the system lets this process start ", possible, " more threads, and about ", needed,
      " are needed: raise the limit of processes and threads (ulimit -u, TasksMax= of systemd, "
      "pids.max or --pids-limit of a container)",
      limits.empty() ? "" : "; ", absl::StrJoin(limits, ", ")));
}

}  // namespace longhaul
