#include "coordinator/cli/graph_schema.h"

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_hint.h"
#include "common/config/data_sources.h"
#include "common/graph/graph_manifest.h"
#include "common/io/file_util.h"
#include "common/io/read_only_file.h"

namespace longhaul::cli {
namespace {

struct FoundGraph {
  std::string path;
  GraphManifest manifest;
};

// Empty: the folder is not on this machine.
absl::StatusOr<std::optional<FoundGraph>> FindGraph(const std::string& path) {
  const std::string file = absl::StrCat(path, "/", kGraphManifestFile);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  const absl::StatusOr<std::string> text = ReadRegularFile(file, kGraphManifestBytesMax);
  if (!text.ok()) return text.status();
  absl::StatusOr<GraphManifest> manifest = ParseGraphManifest(file, *text);
  if (!manifest.ok()) return manifest.status();
  return FoundGraph{path, *std::move(manifest)};
}

// What the job reads of a schema.
GraphManifest SchemaOf(const GraphManifest& manifest, bool links) {
  return links ? manifest.WithoutClasses() : manifest;
}

// Fills in a size of the model, or compares it.
void TakeSize(const char* what, int64_t here, const FoundGraph& graph, int32_t size,
              void (v1::GraphSageSpec::*set)(int32_t), v1::GraphSageSpec& model,
              std::vector<SpecViolation>& violations) {
  if (size == 0 && here > 0) {
    (model.*set)(static_cast<int32_t>(here));
  } else if (size != here) {
    violations.push_back({absl::StrCat("model.graph_sage.", what),
                          absl::StrFormat("found %d, but %s has %d", size, graph.path, here),
                          absl::StrCat("omit it: `longhaul submit` fills it in from the folder")});
  }
}

}  // namespace

std::vector<SpecViolation> ResolveGraphSchema(v1::JobSpec& spec) {
  if (!spec.model().has_graph_sage()) return {};
  const bool links = spec.model().graph_sage().has_links();
  std::vector<SpecViolation> violations;
  std::optional<FoundGraph> first;
  std::string first_field;
  // The spec names the schema of a graph with its classes, which other sites of a job on links need
  // not have.
  bool whole = false;
  for (const GraphData& of : AllGraphData(spec.data())) {
    absl::StatusOr<std::optional<FoundGraph>> graph = FindGraph(of.source.path());
    if (!graph.ok()) {
      violations.push_back(
          {of.field + ".path", std::string(graph.status().message()), HintIn(graph.status())});
      continue;
    }
    if (!graph->has_value()) continue;
    whole = whole || spec.data().graph_schema() == (*graph)->manifest.SchemaDigest();
    if (links && (*graph)->manifest.valid_pairs == 0) {
      violations.push_back({of.field, (*graph)->path + " has no validation pairs",
                            "import it with --valid-pairs or --valid-share"});
    }
    if (!first.has_value()) {
      first = *std::move(graph);
      first_field = of.field;
      continue;
    }
    const std::string difference =
        SchemaDifference(first->path, SchemaOf(first->manifest, links), (*graph)->path,
                         SchemaOf((*graph)->manifest, links));
    if (difference.empty()) continue;
    violations.push_back({of.field,
                          absl::StrCat("its schema is not that of ", first_field, ": ", difference),
                          absl::StrCat("import the graphs of all sites with the same columns",
                                       links ? "" : " and classes", ", in the same order")});
  }
  if (!first.has_value() || !violations.empty()) return violations;
  v1::GraphSageSpec& model = *spec.mutable_model()->mutable_graph_sage();
  TakeSize("columns", first->manifest.columns, *first, model.columns(),
           &v1::GraphSageSpec::set_columns, model, violations);
  if (!links) {
    TakeSize("classes", first->manifest.classes, *first, model.classes(),
             &v1::GraphSageSpec::set_classes, model, violations);
  }
  const std::string schema = SchemaOf(first->manifest, links).SchemaDigest();
  if (spec.data().graph_schema().empty() || whole) {
    spec.mutable_data()->set_graph_schema(schema);
  } else if (spec.data().graph_schema() != schema) {
    violations.push_back({"data.graph_schema",
                          absl::StrCat("is not that of ", first->path, ", which is ", schema),
                          "omit it: `longhaul submit` fills it in from the folder"});
  }
  return violations;
}

}  // namespace longhaul::cli
