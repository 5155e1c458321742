// How a live job got to its present state, for people to look at: the train loss of its pools, and
// what happened to its newest rounds. It is bounded, is kept only in memory, and starts empty with
// the coordinator. No decision depends on it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/schedule/round_id.h"
#include "common/schedule/schedule.h"
#include "coordinator/effects/loss_curve.h"
#include "longhaul/v1/job.pb.h"
#include "longhaul/v1/status.pb.h"

namespace longhaul::coordinator {

// Owner thread.
class JobHistory {
 public:
  static constexpr size_t kRoundsMax = 60;

  // `schedule` has the job's fragments.
  explicit JobHistory(std::vector<FragmentSchedule> schedule) : schedule_(std::move(schedule)) {}

  // Takes a pool's report: its loss, and which merges it has made.
  void Reported(const v1::PoolProgress& progress, absl::Time now);
  // A complete contribution came. Repeated calls change nothing.
  void Pushed(const RoundId& id, const std::string& pool, absl::Time now);
  void Committed(const RoundId& id, absl::Time now);

  // Sets curves and rounds.
  void Fill(v1::JobDetail* detail) const;

 private:
  v1::RoundTrace& RoundOf(const RoundId& id);
  void MarkMerged(v1::RoundTrace& round, const v1::PoolProgress& progress, absl::Time now);

  std::vector<FragmentSchedule> schedule_;
  std::map<std::string, LossCurve> curves_;
  // In the order of their merges.
  std::deque<v1::RoundTrace> rounds_;
  // How long each pool had waited for merges in all, at its newest merge.
  std::map<std::string, double> waited_;
};

}  // namespace longhaul::coordinator
