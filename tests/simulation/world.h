// What the simulated nodes share: time, network, random numbers, the checker, and which faults may
// happen.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "common/simulation/event_loop.h"
#include "common/simulation/network.h"
#include "tests/simulation/checker.h"
#include "tests/simulation/damage.h"
#include "tests/simulation/group_checker.h"

namespace longhaul::simulation {

// Mutations: bugs that are put around the product's code. Tests prove that the checker finds them.
enum class Mutation {
  kNone,
  // A pool's words arrive in the name of another pool: one contribution counts twice.
  kApplyTwice,
  // The disk reports that it synced a file, but it did not.
  kLyingDisk,
  // Error feedback already changes at the push.
  kEarlyFeedback,
  // Bytes change on the network, and no digest is compared.
  kDamagedDownlink,
  // After a crash the disk has the contents of an earlier time.
  kStaleDisk,
  // After a crash the committed versions are forgotten.
  kReseed,
  // Places of pools in a job are not durable.
  kLostPlace,
  // Requests for checkpoints are not durable.
  kLostRequest,
  // Pauses of jobs are not durable.
  kLostPause,
  // Deletions of jobs are not durable.
  kLostDeletion,
  // Effects in the wrong order: the records of a decision become durable with those of the next
  // one, after its own answer and notices.
  kLateRecords,
  // A new group of nodes gets the name of the pool's previous group.
  kReusedGroup,
  // Contributions arrive without their weights.
  kLostWeight,
  // A machine keeps the first number and ranks that it got, and ignores later ones.
  kStaleNumber,
};

struct World {
  World(uint64_t seed, Mutation mutation, bool trace)
      : network(&loop, Mix(seed, 1)),
        random(seed, 2),
        plans(seed, 3),
        guards(seed, 4),
        mutation(mutation),
        trace(trace) {}

  bool Chance(double probability) { return probability > 0 && random.Uniform() < probability; }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return low + (high - low) * random.Uniform();
  }
  void Trace(const std::string& who, const std::string& what) {
    if (trace)
      absl::PrintF("%9.3f  %-14s %s\n", absl::ToDoubleSeconds(loop.now() - absl::UnixEpoch()), who,
                   what);
  }

  sim::EventLoop loop;
  sim::Network network;
  Random random;
  // For what is planned before the run, so that it changes nothing else.
  Random plans, guards;
  Checker checker;
  GroupChecker groups{&checker};
  Mutation mutation;
  bool trace;
  // Whether the run has faults; and, until they are over.
  bool faulty = true;
  bool faults = true;
  // Called before and after each effect.
  double coordinator_crash_chance = 0;
  // The coordinator's disk takes no new files, and its database nothing.
  bool disk_full = false;
  absl::Duration lease = absl::Seconds(3);
  absl::Duration ended_job_keep = absl::InfiniteDuration();
  // Files of jobs that are damaged now, and how many jobs were quarantined for that.
  Damage damage;
  int quarantined = 0;
  // Contributions of which the disk changed a byte.
  int struck = 0;
  // By the name of a job: from which version on evaluations of its outer parameters are infinite.
  std::map<std::string, int64_t> diverges;
  // By the name of a job: a pool whose contributions are noise that is far too large, and from
  // which version on.
  struct Wild {
    std::string pool;
    int64_t from = 1;
  };
  std::map<std::string, Wild> wild;
  // Contributions that were left out of a round.
  int left_out = 0;
  // Pools that may be unable to do a job while faults happen.
  std::set<std::string> misconfigured;
  // Pools that report evaluations which they were not asked for, while faults happen.
  std::set<std::string> liars;
  // Whether reads fail while the coordinator runs, and bytes of contributions change on its disk.
  bool bad_reads = false;
  // Until then the folders with which jobs begin cannot be read.
  absl::Time folders_away_until = absl::InfinitePast();
  // While a round is applied.
  bool applies = false;
  // Where contributions lie in logs (path, byte), and whether the disk can still read them.
  std::map<std::pair<std::string, int64_t>, bool> readable;
  // Whether users send folders for their jobs to begin with.
  bool uploads = false;
  // What the states of all jobs may take. From the coordinator's first restart on: `memory_later`.
  int64_t memory = std::numeric_limits<int64_t>::max();
  int64_t memory_later = std::numeric_limits<int64_t>::max();
};

inline constexpr int kCoordinatorNode = 0;

}  // namespace longhaul::simulation
