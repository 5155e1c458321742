// A whole job in virtual time: the cores of the product's coordinator and of its ranks' sessions
// over modelled links, speeds and faults. Pure: one seed determines a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/config/job_spec.h"
#include "longhaul/v1/plan.pb.h"

namespace longhaul::coordinator {

enum class FaultKind { kPoolLost, kSlow, kLinkDown, kCoordinatorDown };
// "pool-lost", "slow", "link-down", "coordinator-down".
std::string FaultNames();
// INVALID_ARGUMENT: none has this name.
absl::StatusOr<FaultKind> FaultOf(absl::string_view name);

struct SimulatedFault {
  FaultKind kind = FaultKind::kPoolLost;
  // From 1. 0: a random one, each time another. Not for the coordinator.
  int pool = 0;
  // Once at this time, if per_hour is 0; otherwise so often on average, at random, from this time.
  double at_seconds = 0, per_hour = 0;
  double lasts_seconds = 0;
  // Of kSlow: how many times as long a step takes.
  double factor = 1;
};

struct JobSimulationOptions {
  int pools = 1;
  // The job is cut after so many rounds, all fragments together.
  int64_t rounds = 200;
  std::vector<SimulatedFault> faults;
  uint64_t seed = 0;
};

struct JobSimulationResult {
  int pools = 0;
  // Whether the job completed; otherwise why it did not.
  bool completed = false;
  std::string why;
  int64_t steps = 0;
  // From its submission to its end.
  double seconds = 0;
  // Rounds that were committed with contributions, those without any, and contributions of pools
  // that counted, as part of those that there would be if every pool took part in each round.
  int64_t commits = 0, skipped = 0;
  double contributed = 0;
  double commits_per_hour = 0;
  // compute / (compute + waits + copying); of pools that trained.
  double utilization = 0, utilization_least = 0, utilization_most = 0;
  // What the model of the exchange forecasts, without faults.
  double forecast_utilization = 0, forecast_seconds = 0;
  // Tokens that pools trained on, and those of them that are part of committed rounds.
  double tokens = 0, committed_tokens = 0;
  // Committed tokens per second; and as part of what the pools would train if they always computed
  // at full speed.
  double goodput = 0, goodput_share = 0;
  double bytes_up = 0, bytes_down = 0;
  // The states of the job in the coordinator's memory.
  int64_t coordinator_bytes = 0;
  int pools_lost = 0, rank_starts = 0, coordinator_restarts = 0;
  int64_t events = 0, messages = 0;
};

// `sites`: as CompleteSites gave them; pool i is like the i-th of them, from the first again after
// the last. The job's own limits of pools do not count. INVALID_ARGUMENT: a fault names a pool that
// is not there, or the quorum is larger than the number of pools.
absl::StatusOr<JobSimulationResult> SimulateJob(const ResolvedJob& job, const v1::Sites& sites,
                                                const JobSimulationOptions& options);

}  // namespace longhaul::coordinator
