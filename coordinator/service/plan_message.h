// The Plan of a rank that was admitted. Pure.
#pragma once

#include "coordinator/effects/control_plane.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul::coordinator {

// `view`: of the same job, from the same moment. Reads job.progress: owner thread.
v1::PlanEvent MakePlan(const LiveJob& job, const JobView& view, const AdmitRank& rank);

}  // namespace longhaul::coordinator
