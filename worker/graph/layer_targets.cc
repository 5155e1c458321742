#include "worker/graph/layer_targets.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

absl::Status Changed() {
  return absl::DataLossError("the graph's arrays have changed while they were read");
}

class NodeSet {
 public:
  explicit NodeSet(int64_t nodes) : nodes_(nodes), words_((nodes + 63) / 64) {}

  bool Add(int64_t node) {
    if (node < 0 || node >= nodes_) return false;
    words_[node >> 6] |= uint64_t{1} << (node & 63);
    return true;
  }
  std::vector<int64_t> Ascending() const {
    std::vector<int64_t> nodes;
    for (size_t word = 0; word < words_.size(); ++word) {
      for (uint64_t bits = words_[word]; bits != 0; bits &= bits - 1)
        nodes.push_back(static_cast<int64_t>(word) * 64 + std::countr_zero(bits));
    }
    return nodes;
  }

 private:
  int64_t nodes_;
  std::vector<uint64_t> words_;
};

// Another process may write to the arrays meanwhile.
template <typename Source>
absl::Status AddSources(const GraphEdges& edges, const Source* sources, int64_t target,
                        NodeSet& reached) {
  const int64_t begin = edges.indptr[target], end = edges.indptr[target + 1];
  if (begin < 0 || end < begin || end > edges.edges()) return Changed();
  for (int64_t i = begin; i < end; ++i) {
    if (!reached.Add(sources[i])) return Changed();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LayerTargets> FindLayerTargets(const GraphEdges& edges,
                                              absl::Span<const int64_t> seeds, int layers) {
  NodeSet reached(edges.nodes);
  for (const int64_t seed : seeds) {
    if (!reached.Add(seed)) {
      return absl::InvalidArgumentError(
          absl::StrCat("seed ", seed, " is not one of ", edges.nodes, " nodes"));
    }
  }
  std::vector<std::vector<int64_t>> of_layer(layers);
  of_layer.back().assign(seeds.begin(), seeds.end());
  for (int layer = layers - 1; layer > 0; --layer) {
    for (const int64_t target : of_layer[layer]) {
      LH_RETURN_IF_ERROR(edges.sources != nullptr
                             ? AddSources(edges, edges.sources, target, reached)
                             : AddSources(edges, edges.wide_sources, target, reached));
    }
    of_layer[layer - 1] = reached.Ascending();
  }
  LayerTargets targets;
  for (const std::vector<int64_t>& nodes : of_layer) {
    targets.nodes.insert(targets.nodes.end(), nodes.begin(), nodes.end());
    targets.ends.push_back(static_cast<int64_t>(targets.nodes.size()));
  }
  return targets;
}

}  // namespace longhaul
