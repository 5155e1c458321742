// What the fragments ask of whoever decides about jobs and pools: the other half of their contract.
// The coordinator's core answers behind it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/schedule/round_kind.h"

namespace longhaul::coordinator {

// One incarnation's part in one round.
struct ContributionId {
  std::string job, pool, incarnation;
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
};

// Thread-safe. Refusals carry the ErrorInfo of sync.proto.
class Arbiter {
 public:
  virtual ~Arbiter() = default;
  // Whether this contribution would be accepted now. Short; changes nothing.
  virtual absl::Status Judge(const ContributionId& contribution) const = 0;
  // Whether the pool may read the job's fragments. Short; changes nothing.
  virtual absl::Status CheckReader(const std::string& job, const std::string& pool,
                                   const std::string& incarnation) const = 0;
  // The contribution is whole and in the log; OK: it counts. Blocks until that is decided; never
  // called on the thread that decides.
  virtual absl::Status Complete(const ContributionId& contribution) = 0;
  // The job's store is of no more use to this process (a fatal error, fatal.h). Does not block.
  virtual void StoreFailed(const std::string& job, const absl::Status& status) = 0;
};

}  // namespace longhaul::coordinator
