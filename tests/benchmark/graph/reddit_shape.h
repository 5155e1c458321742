// A graph of Reddit's shape: uneven degrees, and sources of which some are much more frequent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/graph/graph_folder.h"

namespace longhaul::benchmark {

// In memory only: sources do not ascend, which sampling does not need.
struct RedditShape {
  std::vector<int64_t> indptr = {0};
  std::vector<int32_t> sources;

  RedditShape(int64_t nodes, int64_t degree);
  GraphEdges edges() const {
    return {.nodes = static_cast<int64_t>(indptr.size()) - 1,
            .indptr = indptr,
            .sources = sources.data()};
  }
};

// The same as a folder, with features and 41 classes; two thirds of the nodes are for training.
// Stops if the disk has no room.
void WriteRedditShape(RedditShape graph, int64_t columns, const std::string& path);

}  // namespace longhaul::benchmark
