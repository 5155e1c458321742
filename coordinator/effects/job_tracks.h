// The curves of jobs, as files for TensorBoard and for scripts (common/track), in the folder of
// each job:
//
//   <data>/jobs/<id>/track/outer        the outer parameters: held-out metrics; norms, cosine and
//                                       NMSE of each fragment's commits, at the inner step of their
//                                       push; bytes; the spec
//   <data>/jobs/<id>/track/pool-NAME    a pool, from its heartbeats: training and held-out metrics
//
// No decision depends on them. A restart continues where they end, and adds what they lack.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/track/tracker.h"
#include "coordinator/effects/live_job.h"
#include "coordinator/store/meta_records.h"
#include "coordinator/store/round_records.h"

namespace longhaul::coordinator {

// Owner thread. Nothing blocks.
class JobTracks {
 public:
  // `tracker` outlives it.
  JobTracks(Tracker* tracker, std::string data_dir)
      : tracker_(tracker), data_dir_(std::move(data_dir)) {}

  // A commit became durable. Repeated calls change nothing.
  void Committed(const LiveJob& job, const CommitRecord& commit, absl::Time now);
  void Evaluated(const LiveJob& job, const EvaluationRecord& evaluation, absl::Time now);
  // A pool reported progress; `job.progress` has its newest report.
  void Progressed(const LiveJob& job, const std::string& pool, absl::Time now);
  void Ended(const LiveJob& job, absl::Time now);

 private:
  // The evaluations of outer parameters by all pools, as one: those that are complete, since every
  // pool has reported or a later one was begun; or, with `all`, the newest as it is.
  void AddCombined(const LiveJob& job, bool all, absl::Time now);
  std::string Folder(const LiveJob& job, const std::string& run) const;

  Tracker* const tracker_;
  const std::string data_dir_;
};

}  // namespace longhaul::coordinator
