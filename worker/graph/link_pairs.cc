#include "worker/graph/link_pairs.h"

#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "common/base/random.h"

namespace longhaul {
namespace {

// So that these, samplers and permutations with one seed differ.
constexpr uint64_t kNegativeStream = 0x6e6567617469766d;
constexpr uint64_t kGroupStream = 0x6e656767726f7570;
constexpr int kDrawsOfPairs = 32, kDrawsOfNodes = 64;
constexpr size_t kTargetsLeast = 32;

uint64_t KeyOf(int64_t a, int64_t b) {
  return static_cast<uint64_t>(std::min(a, b)) << 32 | static_cast<uint64_t>(std::max(a, b));
}

int64_t Below(uint64_t random, uint64_t bound) {
  return static_cast<int64_t>(static_cast<unsigned __int128>(random) * bound >> 64);
}

}  // namespace

NodePair PairOfEdge(const GraphEdges& edges, int64_t edge) {
  LH_CHECK(0 <= edge && edge < edges.edges(), "an edge of the graph");
  const auto after = std::upper_bound(edges.indptr.begin(), edges.indptr.end(), edge);
  return {.source = edges.sources != nullptr ? edges.sources[edge] : edges.wide_sources[edge],
          .target = after - edges.indptr.begin() - 1};
}

bool HasEdge(const GraphEdges& edges, int64_t source, int64_t target) {
  if (source < 0 || source >= edges.nodes || target < 0 || target >= edges.nodes) return false;
  const int64_t begin = edges.indptr[target], end = edges.indptr[target + 1];
  return edges.sources != nullptr
             ? std::binary_search(edges.sources + begin, edges.sources + end, source)
             : std::binary_search(edges.wide_sources + begin, edges.wide_sources + end, source);
}

LinkedPairs::LinkedPairs(const GraphEdges& edges,
                         absl::Span<const absl::Span<const NodePair>> further)
    : edges_(edges) {
  for (const absl::Span<const NodePair> pairs : further) {
    for (const NodePair& pair : pairs) further_.push_back(KeyOf(pair.source, pair.target));
  }
  std::sort(further_.begin(), further_.end());
}

bool LinkedPairs::Linked(int64_t a, int64_t b) const {
  return a == b || HasEdge(edges_, a, b) || HasEdge(edges_, b, a) ||
         std::binary_search(further_.begin(), further_.end(), KeyOf(a, b));
}

int64_t NegativeOf(const LinkedPairs& linked, absl::Span<const NodePair> pairs, uint64_t seed,
                   int64_t step, const NodePair& pair, int64_t number) {
  const uint64_t key =
      Philox64(seed ^ kNegativeStream, static_cast<uint64_t>(step), static_cast<uint64_t>(number));
  const uint64_t of_pair =
      static_cast<uint64_t>(pair.source) << 32 | static_cast<uint64_t>(pair.target);
  uint64_t draw = 0;
  const auto random = [&](uint64_t bound) { return Below(Philox64(key, draw++, of_pair), bound); };
  for (int i = 0; i < kDrawsOfPairs && !pairs.empty(); ++i) {
    const int64_t target = pairs[random(pairs.size())].target;
    if (!linked.Linked(pair.source, target)) return target;
  }
  int64_t node = 0;
  for (int i = 0; i < kDrawsOfNodes; ++i) {
    node = random(static_cast<uint64_t>(linked.nodes()));
    if (!linked.Linked(pair.source, node)) return node;
  }
  // Only a source that is linked to almost all nodes comes here.
  for (int64_t i = 0; i < linked.nodes(); ++i) {
    node = (node + 1) % linked.nodes();
    if (!linked.Linked(pair.source, node)) return node;
  }
  return -1;
}

std::vector<int64_t> NegativesOfGroup(int64_t nodes, absl::Span<const NodePair> pairs,
                                      uint64_t seed, int64_t group, int64_t count) {
  std::set<int64_t> targets;
  for (size_t i = 0; i < pairs.size() && targets.size() < kTargetsLeast; ++i)
    targets.insert(pairs[i].target);
  const bool of_pairs = targets.size() >= kTargetsLeast;
  std::vector<int64_t> negatives;
  negatives.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t random =
        Philox64(seed ^ kGroupStream, static_cast<uint64_t>(group), static_cast<uint64_t>(i));
    negatives.push_back(of_pairs ? pairs[Below(random, pairs.size())].target
                                 : Below(random, static_cast<uint64_t>(nodes)));
  }
  return negatives;
}

}  // namespace longhaul
