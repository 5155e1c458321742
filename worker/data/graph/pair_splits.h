// The pairs of link prediction in an import: read from files, or drawn from the edges while these
// are merged. They leave the graph, in both directions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/graph/graph_manifest.h"
#include "common/graph/graph_writer.h"
#include "worker/data/graph/graph_import.h"

namespace longhaul {

// CopyFiles, then Stays for each edge, then WriteDrawn. Not thread-safe; blocks on the disk.
class PairSplits {
 public:
  // All outlive the object. It fills in the counts of the manifest.
  PairSplits(const GraphImport& import, GraphWriter& writer, GraphManifest& manifest)
      : import_(import), writer_(writer), manifest_(manifest) {}

  // Writes the arrays of pairs that are given as files. INVALID_ARGUMENT: a pair of a node with
  // itself, or in two splits; a file without pairs; a file and a share for one split; errors of
  // ForEachPair. With place and hint.
  absl::Status CopyFiles();
  // Whether an edge, as a key of EdgeSorter, stays in the graph. Keys come in order.
  bool Stays(uint64_t key);
  // Writes the arrays of pairs that Stays has drawn. INVALID_ARGUMENT: none, with a hint.
  absl::Status WriteDrawn();

 private:
  struct Row;
  absl::Status CopyFile(const Row& split, const GraphPairs& given, std::vector<uint64_t>& keys);
  bool Draws(uint64_t key);
  absl::Status WriteDrawn(const char* name, double share, absl::Span<const int64_t> ends,
                          int64_t& count);

  const GraphImport& import_;
  GraphWriter& writer_;
  GraphManifest& manifest_;
  // Of files: keys of each split, sorted, the smaller node as the source.
  std::vector<std::pair<std::string, std::vector<uint64_t>>> of_files_;
  // Both directions of all of them, sorted, and which of them Stays has passed.
  std::vector<uint64_t> left_out_;
  size_t passed_ = 0;
  // Source, target, and so on.
  std::vector<int64_t> valid_, test_;
  uint64_t drawn_before_ = 0;
};

}  // namespace longhaul
