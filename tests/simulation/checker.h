// Judges a simulated run while it goes on, by its own books: what each pool really contributed,
// which versions became durable, what was promised to whom. The first violation is kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coordinator/core/coordinator.h"
#include "tests/simulation/durable_store.h"
#include "tests/simulation/model.h"

namespace longhaul::simulation {

// One rank of one incarnation of a pool, at work on a job.
struct RankId {
  std::string job, pool, incarnation;
  int rank = 0, ranks = 1;
  bool Owns(int word) const { return word % ranks == rank; }
};

class Checker {
 public:
  // Invariant 1: what a rank holds as a version is what the coordinator committed as that version.
  void Holds(const RankId& who, int fragment, int64_t version, const Words& parameters);

  // Invariant 2. A push begins: its words, and the error feedback that went into them.
  void Pushes(const RankId& who, int fragment, int64_t version, const Words& words,
              const Words& residual, const Words& error);
  // A version took effect: until then error feedback was what it was; now it is the residual of the
  // push that counted, if any.
  void Merged(const RankId& who, int fragment, int64_t version, const Words& before,
              const Words& after);
  // A commit became durable. Also invariant 4: nothing is seeded twice.
  void Committed(const std::string& job, int fragment, const StoredFragment& commit);

  // Invariant 3: what was said to somebody.
  void Acknowledged(const std::string& job) { acknowledged_.push_back(job); }
  void Published(const std::string& job, int fragment, int64_t version);
  void Placed(const std::string& job, int ordinal, const std::string& pool,
              const std::string& incarnation);
  void Ended(const std::string& job, JobState state);
  void Restarted(const DurableStore& store);

  // Lockstep: a round goes on only with everybody who is there and owes it.
  void Applies(const coordinator::JobView& job, const coordinator::ApplyRound& apply,
               int64_t push_step);
  // Liveness. Without faults every job is also evaluated at its end.
  void Finally(const DurableStore& store, bool cancelled_allowed, bool faulty);

  void Violation(std::string what);
  const std::optional<std::string>& violation() const { return violation_; }

 private:
  using FragmentKey = std::pair<std::string, int>;  // Job, fragment.
  using PoolKey =
      std::tuple<std::string, std::string, std::string, int>;  // Job, pool, incarnation, fragment.
  struct Contribution {
    Words words = Words(kWords), residual = Words(kWords);
  };

  std::map<FragmentKey, std::vector<StoredFragment>> history_;         // By version.
  std::map<std::pair<PoolKey, int64_t>, Contribution> contributions_;  // By version, too.
  std::map<PoolKey, Words> errors_;
  std::map<std::pair<std::string, int>, std::string>
      places_;  // (job, ordinal) -> pool/incarnation.
  std::map<FragmentKey, int64_t> published_;
  std::map<std::string, JobState> ended_;
  std::vector<std::string> acknowledged_;
  std::optional<std::string> violation_;
};

}  // namespace longhaul::simulation
