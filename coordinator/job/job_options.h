// What the coordinator's core needs to know of a JobSpec: no models, no codecs, no bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/schedule/schedule.h"

namespace longhaul {

struct JobOptions {
  int pools_min = 1;                       // The job starts when this many pools are ready.
  int pools_max = 64;                      // Live pools that may take part at one time.
  std::vector<std::string> pool_names;     // Only these pools. Empty: any.
  std::vector<FragmentSchedule> schedule;  // By fragment.
  int64_t steps = 0;                       // Inner steps of every pool.
  bool final_round = true;
  int64_t checkpoint_every_cycles = 0;  // 0: only at the end.
  int64_t evaluation_every_cycles = 1;  // 0 or negative: only at the end.
};

// Why a job failed or was cancelled (JobError in job.proto).
struct JobFault {
  std::string code, message, field, hint, pool;
};

}  // namespace longhaul
