// Decides with which exit code and report a rank process ends. Pure.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "longhaul/v1/job.pb.h"
#include "worker/agent/pool_supervisor.h"
#include "worker/rank/fault.h"
#include "worker/session/rank_session.h"

namespace longhaul {

struct RankEnd {
  RankExit code = kRankRestart;
  // The error, if there was one. With kRankFailed the rank reports it to the agent before it ends.
  std::optional<v1::JobError> fault;
};

// For an error outside of the session. `status` is not OK.
RankEnd EndOf(FaultOrigin origin, const v1::JobSpec& spec, const absl::Status& status);
RankEnd EndOf(const session::Outcome& outcome, const v1::JobSpec& spec);

}  // namespace longhaul
