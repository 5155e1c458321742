// A job as people and programs see it: combines the record, the core's view and the progress.
// Owner thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/effects/control_plane.h"
#include "coordinator/service/job_watchers.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

// By name or id. NOT_FOUND: JOB_UNKNOWN. Any thread.
absl::StatusOr<JobRecord> FindJobRecord(MetaStore& meta, const std::string& name_or_id);
// FAILED_PRECONDITION: JOB_ENDED, of a job that has. `hint`: what to do instead. Any thread.
absl::Status JobEnded(const JobRecord& record, const std::string& hint = "");
// The events of jobs, also of those that have ended.
JobWatchers::EventSource EventSourceOf(const ControlPlane& control);

// A stored job as it is now. `record` comes from the store.
v1::Job Report(const ControlPlane& control, const JobRecord& record);
// Of one that has ended the record is read. Empty if there is none.
v1::Job Report(const ControlPlane& control, const std::string& id);

// Of a job that has not ended, or is about to: `view` is nothing once it has.
v1::Job ReportLive(const LiveJob& job, const std::optional<JobView>& view, absl::Time now);
// Of a job that has ended: what was kept with its record.
v1::Job ReportEnded(const JobRecord& record);

// --- Rows of lists: as the reports above, with Shortened specs.

// Leaves out the parts that have more than kSpecPartBytesMax. The job's name and its steps stay.
inline constexpr size_t kSpecPartBytesMax = 1 << 10;
v1::JobSpec Shortened(const v1::JobSpec& spec);
// As ReportLive, with `record` in place of the job's, which may have another one soon. A copy of a
// whole spec would cost a thousand times as much as the rest.
v1::Job ReportShortened(const LiveJob& job, const JobRecord& record,
                        const std::optional<JobView>& view, absl::Time now);

// A row of a list that was read from the store.
struct ListedJob {
  // Without spec and status.
  JobRecord record;
  // Of a job that has ended. Empty if it lives.
  v1::Job report;
};
// Returns at most `limit` jobs with order < `before`, newest first. Any thread; blocks on the disk,
// but holds the store up only for a few rows at a time.
absl::StatusOr<std::vector<ListedJob>> ReadListed(MetaStore& meta, int64_t before, int limit);
// The row as it is now: of a job that lives, what the owner thread alone knows.
v1::Job ReportListed(const ControlPlane& control, ListedJob listed);

// Leaves out what would make a message too large, and counts it: of the pools the ones that are not
// live first. What remains is below 3 MiB.
v1::Job Bounded(v1::Job report);

// "node 1 of 2, for 1m30s, at most 30s more".
std::string InWords(const Waiting& waiting, absl::Time now);

// The part of a report that is kept with the record: values that change seldom, and at the end all.
std::string KeptStatus(v1::Job report);

}  // namespace longhaul::coordinator
