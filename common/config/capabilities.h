// What a job asks of a worker's program, in the words in which workers say what they can do
// (JoinRequest.capabilities): "model:transformer", "codec:e3m0", "partition:zero1",
// "precision:bfloat16", "data:text". Pure.
#pragma once

#include <string>
#include <vector>

#include "longhaul/v1/job.pb.h"

namespace longhaul {

// Of a resolved spec. Sorted, each once.
std::vector<std::string> CapabilitiesNeeded(const v1::JobSpec& spec);

}  // namespace longhaul
