// A running job of two fragments, without a coordinator around it.
#pragma once

#include <memory>
#include <utility>

#include "common/config/job_spec.h"
#include "coordinator/effects/live_job.h"

namespace longhaul::coordinator {

inline std::shared_ptr<LiveJob> RunningSyntheticJob() {
  v1::JobSpec spec;
  spec.set_name("job");
  spec.mutable_model()->mutable_synthetic()->set_units(2);
  spec.mutable_model()->mutable_synthetic()->set_elements(100);
  spec.mutable_train()->set_steps(60);
  spec.mutable_sync()->set_h(10);
  ResolvedJob resolved = *ResolveJobSpec(spec);
  JobRecord record{.id = "id", .name = "job", .state = JobState::kRunning};
  record.spec = resolved.spec.SerializeAsString();
  return *MakeLiveJob(record, std::move(resolved));
}

}  // namespace longhaul::coordinator
