// Which node of its pool an agent runs on, by what its user and its surroundings say. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

struct NodeIdentity {
  int nodes = 1;  // Of the pool.
  // Nothing: the coordinator gives one.
  std::optional<int> node;
};

// Of the flags, where they were given; else of the variables of torchrun (NNODES, NODE_RANK); else,
// in Kubernetes, of the ordinal at the end of a StatefulSet's host name. `variable` gives the value
// of an environment variable, or null. INVALID_ARGUMENT: a variable is no number of nodes, the
// number of a node is not below it, or is given for a pool of one.
absl::StatusOr<NodeIdentity> IdentifyNode(
    std::optional<int> nodes, std::optional<int> node, const std::string& host,
    const std::function<const char*(const char* name)>& variable);

}  // namespace longhaul
