// Pools that said that they cannot do one job: why, how often in a row, and when each may try
// again. Knows nothing of other jobs, nor of who is alive.
//
// Externally synchronised. `now` must not go backwards.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace longhaul {

// What a pool says of a job that it cannot do (JobError in job.proto).
struct PoolFault {
  std::string code, message, field, hint;
};

struct SetAside {
  PoolFault fault;   // The newest.
  int failures = 0;  // In a row.
  int alike = 0;     // The newest of them that had the same code and field.
  absl::Time retry_at;
};

class SetAsides {
 public:
  struct Options {
    absl::Duration delay =
        absl::Seconds(5);  // After the first failure; each further one doubles it.
    absl::Duration delay_max = absl::Minutes(10);
    int pools_max = 4096;
  };
  explicit SetAsides(const Options& options) : options_(options) {}
  SetAsides() : SetAsides(Options()) {}

  // A failure of the pool. False: it is set aside already, so this is a repeated report, which
  // counts for nothing. Beyond pools_max the one that may try again first is forgotten.
  bool Add(std::string_view pool, PoolFault fault, absl::Time now);
  // The pool did the job for a while: its failures are over.
  void Clear(std::string_view pool);
  // The pool is gone.
  void Forget(std::string_view pool) { Clear(pool); }

  bool Blocked(std::string_view pool, absl::Time now) const;
  // When the next pool may try again. InfiniteFuture: none waits.
  absl::Time NextRetry(absl::Time now) const;
  // By name. A pool stays here while it tries again, until it is cleared or forgotten.
  const std::map<std::string, SetAside, std::less<>>& all() const { return pools_; }
  // Those that are blocked, each with its reason in words (Describe): JobDemand::excluded.
  std::map<std::string, std::string> Excluded(absl::Time now) const;

  // The fault of the job itself, if it is proved: every one of `eligible` (connected pools that
  // meet the job's needs, these set aside among them) is blocked and failed twice or more with one
  // code and one field, the same for all. A pool that is trying again has not said its last word.
  std::optional<PoolFault> Verdict(const std::vector<std::string>& eligible, absl::Time now) const;

 private:
  Options options_;
  std::map<std::string, SetAside, std::less<>> pools_;
  std::set<std::pair<absl::Time, std::string>> retries_;  // Of all pools_.
};

// "data.text.path: no such file, again in 40 s". At most 200 bytes; the fault has the whole message.
std::string Describe(const SetAside& set_aside, absl::Time now);

}  // namespace longhaul
