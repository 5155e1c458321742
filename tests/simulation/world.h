// What the simulated nodes share: time, network, chance, the checker, and which faults may happen.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "common/sim/event_loop.h"
#include "common/sim/network.h"
#include "tests/simulation/checker.h"
#include "tests/simulation/group_checker.h"

namespace longhaul::simulation {

// Bugs that are put around the product's code, to prove that the checker sees them.
enum class Mutation {
  kNone,
  // A pool's words arrive as another's: one contribution counts twice.
  kApplyTwice,
  // The disk says that it synced a file, and did not.
  kLyingDisk,
  // Error feedback changes at the push.
  kEarlyFeedback,
  // Bytes change on the way, and no digest is compared.
  kDamagedDownlink,
  // After a crash the disk shows what it held a while ago.
  kStaleDisk,
  // After a crash the committed versions are forgotten.
  kReseed,
  // Places in a job are not durable.
  kLostPlace,
  // Requests for checkpoints are not durable.
  kLostRequest,
  // Deletions of jobs are not durable.
  kLostDeletion,
  // Two effects change places: the records of a decision are made durable with the next one's,
  // after its answer and its notices.
  kLateRecords,
  // A group of nodes has the name of the pool's group before.
  kReusedGroup,
  // A machine keeps the first number and ranks that it ever had, whatever it is told later.
  kStaleNumber,
};

struct World {
  World(uint64_t seed, Mutation mutation, bool trace)
      : network(&loop, Mix(seed, 1)), random(seed, 2), mutation(mutation), trace(trace) {}

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
  Checker checker;
  GroupChecker groups{&checker};
  Mutation mutation;
  bool trace;
  // False once the faults are over.
  bool faults = true;
  // Before and after each effect.
  double coordinator_crash_chance = 0;
  absl::Duration lease = absl::Seconds(3);
};

inline constexpr int kCoordinatorNode = 0;

}  // namespace longhaul::simulation
