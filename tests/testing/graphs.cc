#include "tests/testing/graphs.h"

#include <algorithm>
#include <cmath>

#include "common/base/random.h"
#include "tests/testing/graph_files.h"

namespace longhaul::testing_support {
namespace {

// A normal number (Box and Muller).
float Normal(Random& random) {
  const double u = 1 - random.Uniform(), v = random.Uniform();
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v));
}

}  // namespace

GraphEdges MemoryGraph::edges() const {
  return {.nodes = nodes(), .indptr = indptr, .sources = sources.data()};
}

GraphEdges MemoryGraph::wide_edges() const {
  return {.nodes = nodes(), .indptr = indptr, .wide_sources = wide_sources.data()};
}

MemoryGraph GraphOf(int64_t nodes, const std::vector<Pair>& pairs) {
  std::vector<uint64_t> keys;
  keys.reserve(pairs.size());
  for (const Pair& pair : pairs) {
    if (pair.source != pair.target)
      keys.push_back(static_cast<uint64_t>(pair.target) << 32 | static_cast<uint64_t>(pair.source));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  MemoryGraph graph;
  graph.indptr.assign(nodes + 1, 0);
  for (const uint64_t key : keys) {
    ++graph.indptr[(key >> 32) + 1];
    graph.sources.push_back(static_cast<int32_t>(key & 0xffffffff));
    graph.wide_sources.push_back(static_cast<int64_t>(key & 0xffffffff));
  }
  for (int64_t v = 0; v < nodes; ++v) graph.indptr[v + 1] += graph.indptr[v];
  return graph;
}

std::vector<Pair> RmatPairs(int scale, int64_t pairs, uint64_t seed) {
  std::vector<Pair> result(pairs);
  Random random(seed);
  for (Pair& pair : result) {
    for (int level = 0; level < scale; ++level) {
      // 0.57, 0.19, 0.19, 0.05: the quarter of the matrix.
      const double u = random.Uniform();
      pair.source = 2 * pair.source + (u >= 0.76 ? 1 : 0);
      pair.target = 2 * pair.target + ((u >= 0.57 && u < 0.76) || u >= 0.95 ? 1 : 0);
    }
  }
  return result;
}

PlantedGraph MakePlantedGraph(const PlantedOptions& options) {
  PlantedGraph graph;
  Random random(options.seed);
  const auto nodes = static_cast<uint64_t>(options.nodes);
  const auto classes = static_cast<uint64_t>(options.classes);
  for (int64_t v = 0; v < options.nodes; ++v) {
    const auto label = static_cast<int64_t>(v % options.classes);
    graph.labels.push_back(static_cast<int32_t>(label));
    const uint64_t split = random.Below(5);
    (split < 3 ? graph.train : split == 3 ? graph.valid : graph.test).push_back(v);
    for (int64_t c = 0; c < options.columns; ++c) {
      graph.features.push_back(Normal(random) + (c == label % options.columns
                                                     ? static_cast<float>(options.signal)
                                                     : 0.0F));
    }
    for (int64_t i = 0; i < options.degree / 2; ++i) {
      auto other = static_cast<int64_t>(random.Below(nodes));
      // Moved to the nearest node of the class.
      if (random.Uniform() < options.same) {
        other = other - other % options.classes + label;
        if (other >= options.nodes) other -= options.classes;
      } else if (other % static_cast<int64_t>(classes) == label) {
        other = (other + 1) % options.nodes;
      }
      graph.pairs.push_back({v, other});
    }
  }
  return graph;
}

void WritePlantedGraph(const PlantedOptions& options, const std::string& path) {
  const PlantedGraph planted = MakePlantedGraph(options);
  std::vector<Pair> both = planted.pairs;
  for (const Pair& pair : planted.pairs) both.push_back({pair.target, pair.source});
  const MemoryGraph edges = GraphOf(options.nodes, both);
  GraphContent content;
  content.manifest.nodes = options.nodes;
  content.manifest.columns = options.columns;
  content.manifest.classes = options.classes;
  content.manifest.reverse_edges = true;
  content.manifest.pairs_read = static_cast<int64_t>(planted.pairs.size());
  content.indptr = edges.indptr;
  content.sources = edges.wide_sources;
  content.features = planted.features;
  content.labels = planted.labels;
  content.train = planted.train;
  content.valid = planted.valid;
  content.test = planted.test;
  WriteGraph(content, path);
}

}  // namespace longhaul::testing_support
