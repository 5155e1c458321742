// What went wrong with a job. A value.
#pragma once

#include <string>

namespace longhaul {

// Why a job failed, was cancelled or cannot continue, or why a pool cannot do it (JobError in
// job.proto).
struct JobFault {
  std::string code, message, field, hint, pool;
  // A v1::FaultClass, as the pool reported it. Nothing is decided by it.
  int fault_class = 0;
};

}  // namespace longhaul
