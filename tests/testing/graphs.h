// Graphs for tests and benchmarks, from a seed alone: the same on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/graph/graph_folder.h"

namespace longhaul::testing_support {

struct Pair {
  int64_t source = 0, target = 0;
};

// A graph in memory, sources ascending for each target, without duplicates and loops.
struct MemoryGraph {
  std::vector<int64_t> indptr;
  // The same, in both widths.
  std::vector<int32_t> sources;
  std::vector<int64_t> wide_sources;

  int64_t nodes() const { return static_cast<int64_t>(indptr.size()) - 1; }
  GraphEdges edges() const;
  GraphEdges wide_edges() const;
};

// As `longhaul graph import --directed`.
MemoryGraph GraphOf(int64_t nodes, const std::vector<Pair>& pairs);

// R-MAT (Chakrabarti, Zhan, Faloutsos, SDM 2004) with the parameters of Graph500: degrees as uneven
// as those of the web. 2^scale nodes; duplicates and loops occur.
std::vector<Pair> RmatPairs(int scale, int64_t pairs, uint64_t seed);

// A planted partition: `classes` groups of nodes; `same` of the edges stay within one. The features
// are noise, with the class's own column raised by `signal`. A node's own row tells little, its
// neighborhood much.
struct PlantedOptions {
  int64_t nodes = 2000, classes = 5, columns = 16;
  int64_t degree = 10;
  double same = 0.8, signal = 0.5;
  uint64_t seed = 1;
};
struct PlantedGraph {
  std::vector<Pair> pairs;
  // [nodes, columns].
  std::vector<float> features;
  std::vector<int32_t> labels;
  // 60, 20 and 20 % of the nodes.
  std::vector<int64_t> train, valid, test;
};
PlantedGraph MakePlantedGraph(const PlantedOptions& options);

// A folder as `longhaul graph import --reverse-edges` makes it. Stops if the disk has no room.
void WritePlantedGraph(const PlantedOptions& options, const std::string& path);

}  // namespace longhaul::testing_support
