// One incarnation's part in one round of a job.
#pragma once

#include <string>

#include "common/schedule/round_id.h"

namespace longhaul::coordinator {

struct ContributionId {
  std::string job, pool, incarnation;
  RoundId round;
};

}  // namespace longhaul::coordinator
