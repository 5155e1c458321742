// What the commands print: jobs, pools and checkpoints, as JSON for scripts and as tables for
// people.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "common/config/yaml_json.h"
#include "coordinator/cli/table.h"
#include "longhaul/v1/job.pb.h"
#include "longhaul/v1/pool.pb.h"

namespace longhaul::cli {

// Keys are stable: those of v1.Job, with `name` and `steps` beside `id`, eval_loss always {first,
// last, best, last_step, evaluations} (null where there is none yet) and wire_bytes as {up:
// {payload, total}, down: {payload, total}}.
Json JobJson(const v1::Job& job);
std::string JobTable(const v1::Job& job, absl::Time now, TableWidth width = {});

Json JobsJson(const v1::ListJobsResponse& jobs);
std::string JobsTable(const v1::ListJobsResponse& jobs, absl::Time now, TableWidth width = {});

Json PoolsJson(const v1::ListPoolsResponse& pools);
std::string PoolsTable(const v1::ListPoolsResponse& pools, TableWidth width = {});

Json CheckpointsJson(const v1::ListCheckpointsResponse& checkpoints);
std::string CheckpointsTable(const v1::ListCheckpointsResponse& checkpoints, TableWidth width = {});

// Why pools do not take part, a line for each: "west is set aside for quickstart: NOT_FOUND: no
// such file (3 times in a row; again in 20s)".
// `left_out`: how many more there are.
std::string SetAsideText(const google::protobuf::RepeatedPtrField<v1::SetAside>& set_aside,
                         int left_out);

// What the counts of a job are of: "tokens".
std::string UnitName(const v1::Job& job);
bool HasEnded(const v1::Job& job);
// Ended or quarantined: nothing changes until a user does something.
bool Rests(const v1::Job& job);
std::string StateName(v1::JobState state);
// "DIVERGED: the loss is ..., since 2026-11-29 07:37:52Z", with the pool if it is about one.
std::string FindingText(const v1::HealthFinding& finding);
// "RUNNING", or "RUNNING, failing" if its health is not HEALTHY.
std::string StateAndHealth(const v1::Job& job);

}  // namespace longhaul::cli
