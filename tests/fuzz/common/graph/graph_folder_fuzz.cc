// A graph's folder, one of whose arrays has any bytes, with its digest made right.
//   input: u8 which array, then its bytes after the header (cut, or filled with zeros)
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/graph/graph_folder.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/graph_files.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::fuzz::graph_folder_fuzz {
namespace {

using testing_support::GraphContent;

constexpr int64_t kNodes = 5, kColumns = 2;

template <typename T>
void Fill(absl::string_view bytes, std::vector<T>& values) {
  std::fill(values.begin(), values.end(), T{});
  if (!bytes.empty())
    std::memcpy(values.data(), bytes.data(), std::min(bytes.size(), values.size() * sizeof(T)));
}

}  // namespace

std::vector<Seed> Seeds() {
  const GraphContent ring = testing_support::RingGraph(kNodes, kColumns);
  const auto bytes = [](const auto& values) {
    return absl::string_view(reinterpret_cast<const char*>(values.data()),
                             values.size() * sizeof(values[0]));
  };
  return {{"indptr", FuzzWriter().Byte(0).Bytes(bytes(ring.indptr)).Take()},
          {"sources", FuzzWriter().Byte(1).Bytes(bytes(ring.sources)).Take()},
          {"features", FuzzWriter().Byte(2).Bytes(bytes(ring.features)).Take()},
          {"labels", FuzzWriter().Byte(3).Bytes(bytes(ring.labels)).Take()},
          {"train", FuzzWriter().Byte(4).Bytes(bytes(ring.train)).Take()},
          {"pairs", FuzzWriter().Byte(5).Bytes(bytes(std::vector<int64_t>{0, 1, 3, 2})).Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  GraphContent graph = testing_support::RingGraph(kNodes, kColumns);
  graph.wide = true;
  const int array = input.Choice(0, 5);
  graph.valid_pairs = {0, 1, 1, 2};
  const absl::string_view bytes = input.Rest();
  if (array == 0) Fill(bytes, graph.indptr);
  if (array == 1) Fill(bytes, graph.sources);
  if (array == 2) Fill(bytes, graph.features);
  if (array == 3) Fill(bytes, graph.labels);
  if (array == 4) Fill(bytes, graph.train);
  if (array == 5) Fill(bytes, graph.valid_pairs);
  const TempDir dir;
  testing_support::WriteGraph(graph, dir.Join("g"));
  const auto folder = GraphFolder::Open(dir.Join("g"));
  CheckDocumented(folder.status(), {absl::StatusCode::kInvalidArgument});
  if (!folder.ok()) return 0;
  const GraphEdges edges = folder->edges();
  for (int64_t v = 0; v < kNodes; ++v) {
    LH_CHECK(edges.indptr[v] <= edges.indptr[v + 1], "indptr does not fall");
    for (int64_t e = edges.indptr[v]; e < edges.indptr[v + 1]; ++e)
      LH_CHECK(0 <= edges.wide_sources[e] && edges.wide_sources[e] < kNodes, "sources are nodes");
  }
  for (const auto& [source, target] : folder->valid_pairs()) {
    LH_CHECK(0 <= source && source < kNodes && 0 <= target && target < kNodes && source != target,
             "two nodes");
  }
  for (const int32_t label : folder->labels()) LH_CHECK(-1 <= label && label < 2, "a class");
  return 0;
}

}  // namespace longhaul::fuzz::graph_folder_fuzz
