// What is known of a live job, for its health.
#pragma once

#include "coordinator/core/view.h"
#include "coordinator/effects/job_health.h"
#include "coordinator/effects/live_job.h"

namespace longhaul::coordinator {

// `job` has a spec that this program understands. Owner thread.
HealthFacts HealthFactsOf(const LiveJob& job, const JobView& view);

}  // namespace longhaul::coordinator
