// What the coordinator's core needs to know of a JobSpec: no models, no codecs, no bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/schedule/schedule.h"

namespace longhaul {

struct JobOptions {
  std::string name;
  // The job starts when this many pools are ready.
  int pools_min = 1;
  // Live pools that may take part at one time.
  int pools_max = 64;
  // Only these pools. Empty: any.
  std::vector<std::string> pool_names;
  bool cuda = false;
  // Capabilities that a pool must name, as "codec:e3m0".
  std::vector<std::string> needs;
  // By fragment.
  std::vector<FragmentSchedule> schedule;
  // Inner steps of every pool.
  int64_t steps = 0;
  bool final_round = true;
  // 0 or negative: only at the end.
  int64_t checkpoint_every_cycles = 0;
  // 0 or negative: only at the end.
  int64_t evaluation_every_cycles = 1;
  // The initial parameters come from a checkpoint, not from a pool; and of which job, if of one.
  bool from_checkpoint = false;
  std::string from_job = {};
};

// Why a job failed, was cancelled or cannot go on, or why a pool cannot do it (JobError in
// job.proto).
struct JobFault {
  std::string code, message, field, hint, pool;
};

}  // namespace longhaul
