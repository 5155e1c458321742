// How a rank process ends, by what ended its work. Pure.
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
  // What went wrong, if something did. With kRankFailed it is reported to the agent before the end.
  std::optional<v1::JobError> fault;
};

// `status`, which is not OK, arose there.
RankEnd EndOf(FaultPlace place, const v1::JobSpec& spec, const absl::Status& status);
RankEnd EndOf(const session::Outcome& outcome, const v1::JobSpec& spec);

}  // namespace longhaul
