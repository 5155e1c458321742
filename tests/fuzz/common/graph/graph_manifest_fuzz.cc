// manifest.json of a graph's folder.
//   input: u8 1: the digests are made right where they are found; then the text
#include "common/graph/graph_manifest.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz::graph_manifest_fuzz {
namespace {

GraphManifest Sample() {
  GraphManifest manifest;
  manifest.nodes = 3;
  manifest.edges = 2;
  manifest.columns = 4;
  manifest.classes = 2;
  manifest.train = 1;
  manifest.class_names = {"a", "b"};
  manifest.arrays["indptr"] = {NpyType::kInt64, {4}, {}};
  manifest.arrays["indices"] = {NpyType::kInt32, {2}, {}};
  manifest.arrays["features"] = {NpyType::kFloat32, {3, 4}, {}};
  manifest.arrays["labels"] = {NpyType::kInt32, {3}, {}};
  manifest.arrays["train"] = {NpyType::kInt64, {1}, {}};
  return manifest;
}

// Replaces the digest of the text, if it has one, by that which an almost equal text asks for: the
// rest of the checks is seldom reached otherwise.
std::string WithSchemaDigest(const std::string& text) {
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return text;
  GraphManifest manifest;
  const auto count = [&](const char* name) {
    const auto at = json.find(name);
    return at != json.end() && at->is_number_integer() ? at->get<int64_t>() : int64_t{0};
  };
  manifest.columns = count("columns");
  manifest.classes = count("classes");
  for (const auto& [name, names] : {std::pair("class_names", &manifest.class_names),
                                    std::pair("feature_names", &manifest.feature_names)}) {
    const auto at = json.find(name);
    if (at == json.end() || !at->is_array()) continue;
    for (const auto& element : *at) {
      if (element.is_string()) names->push_back(element.get<std::string>());
    }
  }
  json["schema_digest"] = manifest.SchemaDigest();
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

std::vector<Seed> Seeds() {
  const std::string text = WriteGraphManifest(Sample());
  return {{"whole", FuzzWriter().Byte(0).Bytes(text).Take()},
          {"fixed", FuzzWriter().Byte(1).Bytes(text).Take()},
          {"empty", FuzzWriter().Byte(0).Bytes("{}").Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const bool fix = input.Flag();
  std::string text(input.Rest());
  if (fix) text = WithSchemaDigest(text);
  const auto manifest = ParseGraphManifest("manifest.json", text);
  CheckDocumented(manifest.status(), {absl::StatusCode::kInvalidArgument});
  if (!manifest.ok()) return 0;
  LH_CHECK(manifest->nodes > 0 && manifest->columns > 0, "a graph has nodes and columns");
  const auto again = ParseGraphManifest("manifest.json", WriteGraphManifest(*manifest));
  LH_CHECK(again.ok() && again->arrays == manifest->arrays, "what was read can be written");
  return 0;
}

}  // namespace longhaul::fuzz::graph_manifest_fuzz
