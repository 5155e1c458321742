#include "tests/benchmark/graph/reddit_shape.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/random.h"
#include "tests/testing/graph_files.h"

namespace longhaul::benchmark {

RedditShape::RedditShape(int64_t nodes, int64_t degree) {
  Random random(2);
  for (int64_t v = 0; v < nodes; ++v) {
    // Mean 1, median 0.5.
    const double share = std::exp(-0.693 + 1.177 * std::sqrt(-2 * std::log(1 - random.Uniform())) *
                                               std::cos(6.283185 * random.Uniform()));
    const auto of_node = static_cast<int64_t>(share * static_cast<double>(degree));
    indptr.push_back(indptr.back() + std::min(of_node, nodes));
  }
  sources.resize(indptr.back());
  for (int32_t& source : sources) {
    const double u = static_cast<double>(random.Below(1 << 30)) / (1 << 30);
    source = static_cast<int32_t>(u * std::sqrt(u) * static_cast<double>(nodes));
  }
}

void WriteRedditShape(RedditShape graph, int64_t columns, const std::string& path) {
  constexpr int64_t kClasses = 41;
  testing_support::GraphContent content;
  GraphManifest& manifest = content.manifest;
  const int64_t nodes = graph.edges().nodes;
  manifest.nodes = nodes;
  manifest.columns = columns;
  manifest.classes = kClasses;
  content.indptr = {0};
  for (int64_t v = 0; v < nodes; ++v) {
    const auto begin = graph.sources.begin() + graph.indptr[v],
               end = graph.sources.begin() + graph.indptr[v + 1];
    std::sort(begin, end);
    for (auto at = begin; at != end; ++at)
      if (*at != v && (at == begin || *at != *(at - 1))) content.sources.push_back(*at);
    content.indptr.push_back(static_cast<int64_t>(content.sources.size()));
    content.labels.push_back(static_cast<int32_t>(v * 7 % kClasses));
    (v % 12 < 8 ? content.train : v % 12 < 9 ? content.valid : content.test).push_back(v);
  }
  Random random(3);
  content.features.resize(nodes * columns);
  for (float& value : content.features) value = static_cast<float>(random.Below(2048)) / 1024 - 1;
  testing_support::WriteGraph(std::move(content), path);
}

}  // namespace longhaul::benchmark
