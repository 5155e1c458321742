// Pairs of nodes that a user gives by the ids that the graph was imported with.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph_folder.h"

namespace longhaul {

// Reads pairs source, target: .npy of whole numbers, (pairs, 2) or (2, pairs), or CSV without a
// heading, in which an id that is a text may stand in double quotes (RFC 4180); also compressed.
// They are numbers of nodes if the graph was imported without ids. In the order of the file; a node
// may be paired with itself. Takes 16 bytes for each pair, and for the time of the call 16 for each
// node of the graph. INVALID_ARGUMENT: no pair, another number of columns, an id that no node has;
// and errors of NumberRows. The message names file and position; with a hint. Blocks on the disk.
absl::StatusOr<std::vector<NodePair>> ReadIdPairs(const std::string& path,
                                                  const GraphFolder& graph);

}  // namespace longhaul
