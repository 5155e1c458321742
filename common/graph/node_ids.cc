#include "common/graph/node_ids.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/io/digest.h"

namespace longhaul {

NodeIds::NodeIds(const GraphFolder& graph) : graph_(graph) {
  const GraphIds kind = graph.manifest().ids;
  if (kind == GraphIds::kNone) return;
  keys_.reserve(graph.nodes());
  for (int64_t node = 0; node < graph.nodes(); ++node) {
    keys_.emplace_back(kind == GraphIds::kNumbers ? static_cast<uint64_t>(graph.number_ids()[node])
                                                  : DigestOf(graph.TextIdOf(node)).low,
                       node);
  }
  std::sort(keys_.begin(), keys_.end());
}

std::optional<int64_t> NodeIds::NodeOf(int64_t id) const {
  const GraphIds kind = graph_.manifest().ids;
  if (kind == GraphIds::kTexts) return NodeOf(absl::StrCat(id));
  if (kind == GraphIds::kNone)
    return id < 0 || id >= graph_.nodes() ? std::nullopt : std::optional(id);
  const std::pair<uint64_t, int64_t> first(id, 0);
  const auto at = std::lower_bound(keys_.begin(), keys_.end(), first);
  if (at == keys_.end() || at->first != first.first) return std::nullopt;
  return at->second;
}

std::optional<int64_t> NodeIds::NodeOf(absl::string_view id) const {
  const std::pair<uint64_t, int64_t> first(DigestOf(id).low, 0);
  for (auto at = std::lower_bound(keys_.begin(), keys_.end(), first);
       at != keys_.end() && at->first == first.first; ++at) {
    if (graph_.TextIdOf(at->second) == id) return at->second;
  }
  return std::nullopt;
}

}  // namespace longhaul
