// The sites of a forecast, from what a coordinator knows of its pools.
#pragma once

#include "common/config/job_spec.h"
#include "longhaul/v1/job.pb.h"
#include "longhaul/v1/plan.pb.h"
#include "longhaul/v1/pool.pb.h"

namespace longhaul::plan {

// Those pools that could work on `job` now or when they are idle, by name. Their speed is that of
// the newest of `jobs` (newest first) which they computed for more than a few seconds on the same
// device in the same precision; where there is none it is left out. Links are not known. Pure.
v1::Sites SitesOfPools(const ResolvedJob& job, const v1::ListPoolsResponse& pools,
                       const v1::ListJobsResponse& jobs);

}  // namespace longhaul::plan
