// Determines which node of its pool an agent runs on, from flags, environment and host name. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

struct NodeIdentity {
  // Nodes of the pool.
  int nodes = 1;
  // Empty: the coordinator gives a number.
  std::optional<int> node;
};

// Uses the flags if they were given; else the variables of torchrun (NNODES, NODE_RANK); else, in a
// step of Slurm (srun), SLURM_STEP_NUM_NODES and SLURM_NODEID; else, in Kubernetes, the ordinal at
// the end of a StatefulSet's host name. `variable` returns the value of an environment variable, or
// null. INVALID_ARGUMENT: a variable is not a number of nodes, or a node's number is not below it,
// or is given for a pool of one node; or srun starts several workers on a node.
absl::StatusOr<NodeIdentity> IdentifyNode(
    std::optional<int> nodes, std::optional<int> node, const std::string& host,
    const std::function<const char*(const char* name)>& variable);

}  // namespace longhaul
