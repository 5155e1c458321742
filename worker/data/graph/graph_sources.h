// Finds the files of a graph in the folders of other tools. Reads only small files. Both set all
// but the direction, duplicates and `out` of a GraphImport.
//
// Errors of both: NOT_FOUND: no such folder, or a file that it must have. INVALID_ARGUMENT: the
// folder holds something that is not supported (several types of nodes, several graphs, files of
// PyTorch), or a file is malformed. With a hint.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/graph/graph_import.h"

namespace longhaul {

// Node property prediction of OGB, as CSV (raw/edge.csv.gz and so on) or binary (raw/data.npz).
// `split`: the folder below split/; empty: the only one.
absl::StatusOr<GraphImport> FindOgbGraph(const std::string& folder, const std::string& split);

// An OnDiskDataset of GraphBolt before its preprocessing: metadata.yaml, with files of the formats
// csv and numpy; seeds of two columns are pairs. `task`: empty: the only one, or the first.
// `feature`: empty: "feat", or the only one.
absl::StatusOr<GraphImport> FindGraphBoltGraph(const std::string& folder, const std::string& task,
                                               const std::string& feature);

// metadata.yaml, with paths below `folder`.
absl::StatusOr<GraphImport> ParseGraphBolt(const std::string& folder, absl::string_view yaml,
                                           const std::string& task, const std::string& feature);

}  // namespace longhaul
