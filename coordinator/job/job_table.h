// The jobs a coordinator knows, in the order of their submission; ended ones stay, so that a
// latecomer hears how they ended.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"

namespace longhaul {

struct Job {
  std::string id;
  JobOptions options;
  Lifecycle lifecycle;
  absl::Time changed_at;          // Of the newest change of state, or of the loss of its last pool.
  std::optional<JobFault> fault;  // FAILED, or CANCELLED with a reason.
  // FINISHING: whether the evaluation of the last version came, and until when it is awaited.
  bool final_evaluation = false;
  absl::Time final_evaluation_until = absl::InfiniteFuture();
};

// Externally synchronised. Pointers and references to jobs stay valid.
class JobTable {
 public:
  // Nothing if the id is taken.
  Job* Add(Job job);
  Job* Find(std::string_view id);
  const Job* Find(std::string_view id) const;

  std::deque<Job>& jobs() { return jobs_; }
  const std::deque<Job>& jobs() const { return jobs_; }

 private:
  std::deque<Job> jobs_;
  std::map<std::string, size_t, std::less<>> by_id_;
};

}  // namespace longhaul
