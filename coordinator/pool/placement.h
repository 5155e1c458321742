// Which idle pools work for which job: a pure function of the connected pools and the jobs'
// demands.
//
//   1. A job that has not begun gets all the pools it is missing, or none. The oldest chooses
//      first. A job that gets none does not delay the others, unless it keeps pools (3).
//   2. The remaining pools go, one by one, to the job with the fewest pools that has room (of
//      equal ones to the older), whether it runs or begins now.
//   3. A large job must not wait for ever behind small ones whose pools become idle one by one. So
//      it keeps idle pools, in turns: after it waited for T (kKeepAfter), until 2 T; again from 4 T
//      to 8 T, from 16 T to 32 T. The turns become longer than any other job, so in some turn it
//      collects all its pools. In the turns between, which are as long, the others get them. Only a
//      job that the connected pools could satisfy keeps any; of several such jobs the oldest keeps
//      a pool.
//   4. A job chooses first the pools that the fewest jobs could use, then those without a GPU, then
//      those that have been idle for the longest time.
//
// The result does not depend on the order of the pools. 4,096 pools and 100 jobs take a few
// milliseconds.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace longhaul {

enum class PoolDevice { kCpu, kCuda };

// A connected pool that may be given work.
struct PoolOffer {
  // Unique.
  std::string pool;
  // A pool with kCuda can do jobs of both devices.
  PoolDevice device = PoolDevice::kCpu;
  // Null if it has none. Each set is examined once, however many pools point to it.
  const std::set<std::string>* capabilities = nullptr;
  // The order of waiting for work: the lower, the earlier.
  int64_t turn = 0;
  // The name of the job that it works on, or empty if it is idle.
  std::string busy_with;
};

// What a job needs. Jobs are given in the order of their submission.
struct JobDemand {
  // Both are unique.
  std::string job, name;
  // How many pools it still needs before it can begin, or continue after it lost all or was paused.
  // 0: it runs, and takes further pools.
  int missing_min = 0;
  // How many pools it may take, including missing_min. A smaller value counts as missing_min.
  int room = 0;
  // How many pools it has.
  int live = 0;
  // False: it takes no pools now, and lacks none.
  bool open = true;
  // How long it has been missing pools.
  absl::Duration waited;
  PoolDevice device = PoolDevice::kCpu;
  // Capabilities.
  std::vector<std::string> needs;
  // Only these pools may be given. Empty: any.
  std::vector<std::string> names;
  // The pools that are set aside now, each with the reason as a text.
  std::map<std::string, std::string> excluded;
};

enum class LackReason {
  // Too few connected pools could do the job.
  kNotConnected,
  // With the pools that are set aside there would be enough.
  kSetAside,
  // Enough are connected, but too few are idle.
  kBusy,
  // Enough are idle, but they are kept for older jobs.
  kKept,
};

// The number of names, and the first few of them.
struct SomeNames {
  // At most 3.
  std::vector<std::string> first;
  int count = 0;
};
// A number of pools, and the jobs that have them: the job with the most pools first.
struct PoolsByJob {
  int pools = 0;
  SomeNames jobs;
};

// Why a job that has not begun got no pools.
struct Lack {
  std::string job;
  LackReason reason = LackReason::kNotConnected;
  int missing = 0;
  PoolDevice device = PoolDevice::kCpu;
  // The only pools that may be given, if the job names any.
  SomeNames names;

  // Pools that could do the job: idle ones that are too few and left to other jobs, or kept for
  // this job, or kept for older jobs; and pools that work for other jobs or are given to them now.
  int idle = 0;
  int held = 0;
  PoolsByJob kept;
  PoolsByJob busy;
  // Those that are set aside; at most 3 of them, each with the reason.
  int set_aside = 0;
  std::vector<std::pair<std::string, std::string>> set_aside_first;

  // Pools that could not do it: named by the job but not connected; without the device, idle or
  // busy; and for each capability that some pools lack, how many lack it.
  SomeNames absent;
  int without_device = 0;
  PoolsByJob without_device_busy;
  std::vector<std::pair<std::string, int>> lacking;
};

// A sentence such as "2 cuda pools: 0 connected; 2 cpu pools are busy with quickstart". It has at
// most 2,500 bytes, if names and capabilities have at most 64 and reasons at most 200.
std::string Sentence(const Lack& lack);

struct PlacedPool {
  std::string job, pool;
};

struct Placement {
  // In the order of the jobs; those of one job by the pool's name.
  std::vector<PlacedPool> assignments;
  // Idle pools that wait for that job, by the pool's name.
  std::vector<PlacedPool> kept;
  // In the order of the jobs.
  std::vector<Lack> lacks;
  // After this time a job begins or ends to keep pools, so the result will be different.
  // InfiniteDuration: never.
  absl::Duration reconsider_in = absl::InfiniteDuration();
};

// T in the rules above.
inline constexpr absl::Duration kKeepAfter = absl::Minutes(1);

Placement Place(const std::vector<PoolOffer>& pools, const std::vector<JobDemand>& jobs);

}  // namespace longhaul
