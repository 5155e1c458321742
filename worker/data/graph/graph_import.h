// Makes a graph's folder (common/graph/graph_manifest.h) from files of edges, features, labels and
// splits. Memory: 16 bytes for each node, up to 40 for each validation or test pair, 8 for each
// training pair, and a bounded buffer; edges and features may be larger.
// While it works the disk holds the new folder, and once more 8 bytes for each edge.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph_manifest.h"
#include "common/io/filesystem.h"
#include "worker/data/graph/number_rows.h"

namespace longhaul {

// Nodes by their numbers, or a mask: one value, 0 or 1, for each node. With labels: of these nodes.
struct GraphSplit {
  std::optional<NumberFile> nodes;
  std::optional<NumberFile> labels;
};

// Pairs to predict, as edges. With labels: one for each pair; those with 0 are left out.
struct GraphPairs {
  std::optional<NumberFile> pairs;
  std::optional<NumberFile> labels;
};

struct GraphImport {
  int64_t nodes = 0;
  // Pairs (source, target): two columns, or an array (2, edges). At least one file.
  std::vector<NumberFile> edges;
  NumberFile features;
  // Of all nodes; whole numbers, also as floats. -1 and NaN: unlabelled. Not with labels of splits.
  std::optional<NumberFile> labels;
  GraphSplit train, valid, test;
  // For link prediction. Without training pairs the edges are those. Validation and test pairs and
  // their reverses are no edges of the graph, unless keep_held_out.
  GraphPairs train_pairs, valid_pairs, test_pairs;
  // Instead of files: about this share of the edges, from 0 to 1, drawn by split_seed. Both
  // directions of an edge fall in the same split.
  double valid_share = 0, test_share = 0;
  uint64_t split_seed = 1;
  bool keep_held_out = false;
  // 0: as many as the names, or one more than the largest label.
  int64_t classes = 0;
  // Each edge also from target to source.
  bool reverse_edges = false;
  bool keep_duplicates = false;
  // One for each node. Whole numbers or texts; a text file with a line each, or .npy of numbers.
  std::string ids;
  // Text files with a name on each line.
  std::string class_names, feature_names;
  // A folder that does not exist, or is empty.
  std::string out;
  int64_t memory_bytes = 256 << 20;
  // int64 sources where int32 would do.
  bool wide_sources = false;
};

struct GraphImportResult {
  GraphManifest manifest;
  // Sentences for people.
  std::vector<std::string> warnings;
};

// Blocks for long. Writes all or nothing. NOT_FOUND: a file does not exist. INVALID_ARGUMENT: a
// file breaks a rule; the message names file, position and value, with a hint. ALREADY_EXISTS:
// `out`. Others: those of the file system.
absl::StatusOr<GraphImportResult> ImportGraph(FileSystem& fs, const GraphImport& import);

// "31 % of the nodes have no in-edge". Empty: at most a fifth have none.
std::string WarningOfInEdges(const GraphManifest& manifest);

}  // namespace longhaul
