// The pools that reported that they cannot do one job: why, how often in a row, and when each may
// try again. Knows nothing of other jobs, nor of which pools are alive.
//
// Externally synchronised. `now` must not go backwards.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/job_fault.h"

namespace longhaul {

struct SetAside {
  // The newest, which names the pool.
  JobFault fault;
  // How many in a row.
  int failures = 0;
  // How many of the newest failures had the same code and field.
  int alike = 0;
  absl::Duration delay;
  absl::Time retry_at;
};

class SetAsides {
 public:
  // The delay after the first failure. Each further failure doubles it.
  static constexpr absl::Duration kDelay = absl::Seconds(5);
  static constexpr absl::Duration kDelayMax = absl::Minutes(10);
  static constexpr size_t kPoolsMax = 4096;

  // Adds a failure of the pool. Returns false if the pool is set aside already: then it is a
  // repeated report and does not count. Beyond kPoolsMax, the pool that may try again first is
  // cleared.
  bool Add(std::string_view pool, JobFault fault, absl::Time now);
  // The pool did the job for a while, so its failures do not count any more.
  void Clear(std::string_view pool);
  // The pool contributed: it is cleared. If it fails alike before it has done the job for as long
  // as it was set aside, its failures count again: a pool whose values become infinite contributes
  // before that each time.
  void Contributed(std::string_view pool);

  bool Blocked(std::string_view pool, absl::Time now) const;
  // When the next pool may try again. InfiniteFuture if none waits.
  absl::Time NextRetry(absl::Time now) const;
  // By name. A pool stays here while it tries again, until it is cleared.
  const std::map<std::string, SetAside, std::less<>>& all() const { return pools_; }
  // The blocked pools, each with its reason as a text (Describe): JobDemand::excluded.
  std::map<std::string, std::string> Excluded(absl::Time now) const;

  // The fault of the job itself, if it is proved. `eligible` are the connected pools that meet the
  // job's needs, including those set aside. It is proved if all of them are blocked, and each
  // failed twice or more with the same code and field, which are the same for all. A pool that is
  // trying again does not count as blocked.
  std::optional<JobFault> Verdict(const std::vector<std::string>& eligible, absl::Time now) const;

 private:
  std::map<std::string, SetAside, std::less<>> pools_;
  // Those that contributed, with what counts if they fail soon. Some are outdated.
  std::map<std::string, SetAside, std::less<>> contributed_;
  // The retry times of all pools_.
  std::set<std::pair<absl::Time, std::string>> retries_;
};

// A text such as "data.text.path: no such file, again in 40 s", of at most 200 bytes. The fault has
// the whole message.
std::string Describe(const SetAside& set_aside, absl::Time now);

}  // namespace longhaul
