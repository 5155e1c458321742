// metadata.yaml of GraphBolt. The files that it names are not read.
//   input: the text
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/graph/graph_sources.h"

namespace longhaul::fuzz::graphbolt_fuzz {

std::vector<Seed> Seeds() {
  return {{"whole",
           "graph: {nodes: [{num: 4}], edges: [{format: csv, path: e.csv}]}\n"
           "feature_data: [{domain: node, name: feat, format: numpy, path: x.npy}]\n"
           "tasks: [{name: a, num_classes: 3, train_set: [{data: [{name: seeds, format: numpy, "
           "path: s.npy}, {name: labels, format: numpy, path: y.npy}]}]}]\n"},
          {"torch",
           "graph: {nodes: [{num: 4}], edges: [{format: csv, path: e.csv}]}\n"
           "feature_data: [{domain: node, name: feat, format: torch, path: x.pt}]\n"},
          {"types",
           "graph: {nodes: [{type: a, num: 4}, {type: b, num: 1}], edges: [{format: csv}]}\n"}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const auto import = ParseGraphBolt("folder", input.Rest(), "", "");
  CheckDocumented(import.status(), {absl::StatusCode::kInvalidArgument});
  if (!import.ok()) return 0;
  LH_CHECK(
      !import->edges.empty() && !import->features.path.empty() && import->train.nodes.has_value(),
      "what an import needs");
  return 0;
}

}  // namespace longhaul::fuzz::graphbolt_fuzz
