// Which idle pools work for which job: a pure function of what is connected and what is asked for.
//
//   1. A job that has not begun gets all the pools it is missing, or none. The oldest chooses
//      first; one that gets none holds up nobody, unless it keeps pools (3).
//   2. What is left goes, one by one, to the job with the fewest pools that has room (of equal ones
//      the older), whether it runs or begins now.
//   3. So that a large job does not wait for ever behind small ones whose pools come free one by
//      one, it keeps idle pools, in turns: after it waited for T, until 2 T; again from 4 T to 8 T,
//      from 16 T to 32 T. The turns grow past the length of any other job, so that some turn
//      collects the whole set; the turns between, as long, are the others'. Only a job that the
//      connected pools could satisfy keeps any; of several jobs the oldest keeps a pool.
//   4. A job chooses the pools that the fewest jobs could use, then those without a GPU, then the
//      longest idle.
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
  std::string pool;  // Unique.
  int ranks = 1;
  PoolDevice device = PoolDevice::kCpu;  // kCuda does the jobs of both.
  // Null: none. Pools that share one set (by address) are looked at once.
  const std::set<std::string>* capabilities = nullptr;
  int64_t turn = 0;       // Order of waiting for work: the lower, the earlier.
  std::string busy_with;  // Name of the job that it works on. Empty: idle.
};

// What a job asks for. Jobs are given in the order of their submission.
struct JobDemand {
  std::string job, name;  // Its id, and its name (unique too).
  // Pools it still needs before it can begin, or go on after it lost all. 0: it runs, and takes
  // newcomers.
  int missing_min = 0;
  int room = 0;           // Pools it may take, missing_min included. Below missing_min: as that.
  int live = 0;           // Pools it has.
  bool open = true;       // False: it takes none now, and lacks none.
  absl::Duration waited;  // Since it has been missing pools.
  PoolDevice device = PoolDevice::kCpu;
  int ranks_max = 0;                            // Of one pool. 0: any.
  std::vector<std::string> needs;               // Capabilities.
  std::vector<std::string> names;               // Only these pools. Empty: any.
  std::map<std::string, std::string> excluded;  // Pools set aside now, and why, in words.
};

enum class LackReason {
  kNotConnected,  // Not enough pools that could do the job are connected.
  kSetAside,      // There would be, with those that are set aside.
  kBusy,          // Enough are connected; too few are idle.
  kKept,          // Enough are idle; they are kept for older jobs.
};

// The first few of many names.
struct SomeNames {
  std::vector<std::string> first;  // At most 3.
  int count = 0;
};
// Pools, and the jobs they have to do with: those with most pools first.
struct PoolsByJob {
  int pools = 0;
  SomeNames jobs;
};

// Why a job that has not begun got nothing.
struct Lack {
  std::string job;
  LackReason reason = LackReason::kNotConnected;
  int missing = 0;
  PoolDevice device = PoolDevice::kCpu;
  int ranks_max = 0;
  SomeNames names;  // Only these pools. None: any.
  // Pools that could do the job.
  int idle = 0;     // Too few, and left to others.
  int held = 0;     // Too few, and kept for this job.
  PoolsByJob kept;  // Idle, and kept for older jobs.
  PoolsByJob busy;  // With other jobs, or given to them now.
  int set_aside = 0;
  std::vector<std::pair<std::string, std::string>> set_aside_first;  // At most 3: pool and reason.
  // Pools that could not.
  SomeNames absent;        // Named by the job, not connected.
  int without_device = 0;  // Idle ones.
  PoolsByJob without_device_busy;
  int too_many_ranks = 0;
  std::vector<std::pair<std::string, int>> lacking;  // Capability that some lack, and how many.
};

// "2 cuda pools: 0 connected; 2 cpu pools are busy with quickstart". At most 2,500 bytes, if names
// and capabilities have at most 64 and reasons at most 200.
std::string Sentence(const Lack& lack);

struct PlacedPool {
  std::string job, pool;
};

struct Placement {
  std::vector<PlacedPool> assignments;  // By job, as given; those of one job by the pool's name.
  std::vector<PlacedPool> kept;         // Idle pools that wait for that job. By the pool's name.
  std::vector<Lack> lacks;              // By job, as given.
  // In which time a job begins or ends to keep pools, so that the result changes by itself.
  // InfiniteDuration: never.
  absl::Duration reconsider_in = absl::InfiniteDuration();
};

struct PlacementOptions {
  absl::Duration keep_after = absl::Minutes(1);  // T above.
};

Placement Place(const std::vector<PoolOffer>& pools, const std::vector<JobDemand>& jobs,
                const PlacementOptions& options = {});

}  // namespace longhaul
