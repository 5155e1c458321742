// Finds the nodes of a graph by the user's own ids, or by their numbers if the graph was imported
// without ids. Takes 16 bytes for each node with an id.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/graph/graph_folder.h"

namespace longhaul {

// Immutable, so thread-safe.
class NodeIds {
 public:
  // The graph outlives the object.
  explicit NodeIds(const GraphFolder& graph);

  // Empty: no node has this id.
  std::optional<int64_t> NodeOf(int64_t id) const;
  // Of a graph whose ids are texts.
  std::optional<int64_t> NodeOf(absl::string_view id) const;

 private:
  const GraphFolder& graph_;
  // The key of each node's id (the id, or a digest of a text), with the node; sorted. A copy, since
  // somebody may change the file. Empty: the graph has no ids.
  std::vector<std::pair<uint64_t, int64_t>> keys_;
};

}  // namespace longhaul
