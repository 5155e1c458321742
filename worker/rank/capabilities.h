// What this program can do: the table that the agent sends to the coordinator, and by which the
// rank itself refuses a job. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// In the words of JoinRequest.capabilities; blocks are fused on CPUs alone.
std::vector<std::string> CapabilitiesOn(v1::Device device);

// UNIMPLEMENTED: names what the job needs and this program lacks on that device. `spec` has every
// default filled in.
absl::Status CheckCapabilities(const v1::JobSpec& spec, v1::Device device);

// What to tell the user of a spec whose precision this machine computes slowly. Empty: nothing.
// `fast_bf16`: its CPU multiplies bfloat16.
std::string SlowComputing(const v1::JobSpec& spec, bool fast_bf16);

}  // namespace longhaul
