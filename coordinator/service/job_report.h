// A job as people and programs see it: the record, the core's view and the progress put together.
// Pure functions; owner thread (they read LiveJob's progress).
#pragma once

#include "absl/time/time.h"
#include "coordinator/core/coordinator.h"
#include "coordinator/service/live_job.h"
#include "coordinator/store/meta_store.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

// Of a job that is live.
v1::Job ReportLive(const LiveJob& job, const JobView& view, absl::Time now);
// Of a job that has ended: what was kept with its record.
v1::Job ReportEnded(const JobRecord& record);
// Of a job that is not stored (validate_only).
v1::Job ReportUnstored(const ResolvedJob& resolved);

// What a job's record keeps beside its spec: what changes seldom, and at the end the whole report.
std::string StatusOf(v1::Job report);

}  // namespace longhaul::coordinator
