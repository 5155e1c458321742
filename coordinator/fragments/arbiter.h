// What Fragments asks of the code that decides about jobs and pools. The coordinator's core gives
// the answers.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "coordinator/job/contribution_id.h"

namespace longhaul::coordinator {

// Thread-safe. Refusals carry the ErrorInfo of sync.proto.
class Arbiter {
 public:
  virtual ~Arbiter() = default;
  // Whether this contribution would be accepted now. Returns at once; changes nothing.
  virtual absl::Status Judge(const ContributionId& contribution) const = 0;
  // Whether the pool may read the job's fragments. Returns at once; changes nothing.
  virtual absl::Status CheckReader(const std::string& job, const std::string& pool,
                                   const std::string& incarnation) const = 0;
  // The steps of the job's checkpoints with which other jobs begin that are not seeded. Returns at
  // once.
  virtual std::set<int64_t> InitialSteps(const std::string& job) const = 0;
  // Reports that the contribution is complete and in the log. OK: it counts. Blocks until that is
  // decided. Must not be called on the thread that decides.
  virtual absl::Status Complete(const ContributionId& contribution) = 0;
  // Reports that the process can no longer use the job's store, after a fatal error (fatal.h). Does
  // not block.
  virtual void ReportStoreFailure(const std::string& job, const absl::Status& status) = 0;
};

}  // namespace longhaul::coordinator
