// The table of what this program can do. The agent sends it to the coordinator, and a rank refuses
// jobs by it. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// The capabilities on a device, as JoinRequest.capabilities has them.
std::vector<std::string> CapabilitiesOn(v1::Device device);

// UNIMPLEMENTED: this program lacks something that the job needs on that device; the message names
// it. `spec` must have every default filled in.
absl::Status CheckCapabilities(const v1::JobSpec& spec, v1::Device device);

// A warning for a spec whose precision this machine computes slowly. Empty: there is none.
// `fast_bf16`: the CPU has instructions for bf16 products.
std::string SlowComputing(const v1::JobSpec& spec, bool fast_bf16);

}  // namespace longhaul
