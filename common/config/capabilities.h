// What a job needs of the programs of its pools, in the words of JoinRequest.capabilities.
#pragma once

#include <string>
#include <vector>

#include "longhaul/v1/job.pb.h"

namespace longhaul {

// Of coordinators (JoinResponse.capabilities): takes Evaluation.of_pool.
inline constexpr char kPoolEvaluations[] = "evaluation:pools";

// Sorted, each once: "codec:e3m0", "data:text", "model:transformer", "partition:ddp",
// "precision:float32". `spec` has every default filled in. The device is no capability: it is a
// field of its own.
std::vector<std::string> NeedsOf(const v1::JobSpec& spec);

}  // namespace longhaul
