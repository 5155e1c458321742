#include "worker/family/graph/graph_family.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/base/thread_team.h"
#include "common/graph/graph_folder.h"
#include "common/io/available_memory.h"
#include "worker/engine/torch_status.h"
#include "worker/family/family.h"
#include "worker/family/graph/graph_batches.h"
#include "worker/family/graph/graph_evaluation_stager.h"
#include "worker/family/graph/graph_stager.h"
#include "worker/model/graph_sage.h"

namespace longhaul {
namespace {

// A graph with more than one of so many nodes without in-edges is suspicious.
constexpr int64_t kFewWithoutInEdges = 5;

// A list of differences is complete, so that a site needs one look.
absl::Status CheckGraph(const GraphOptions& options, const GraphFolder& folder) {
  const GraphManifest& manifest = folder.manifest();
  std::vector<std::string> wrong;
  const auto compare = [&](const char* what, int64_t here, int64_t expected) {
    if (here != expected)
      wrong.push_back(absl::StrFormat("it has %d %s, the job's model %d", here, what, expected));
  };
  compare("columns", manifest.columns, options.shape.columns);
  if (!options.links.has_value()) compare("classes", manifest.classes, options.shape.classes);
  if (wrong.empty() && !options.schema.empty() && manifest.SchemaDigest() != options.schema) {
    wrong.push_back(absl::StrCat(
        "its columns or classes have other names, or another order, than those of the "
        "graph with which the job was submitted (schema digest ",
        manifest.SchemaDigest().substr(0, 12), " here, ", options.schema.substr(0, 12), " there)"));
  }
  const auto require = [&](int64_t count, const char* what) {
    if (count == 0) wrong.push_back(absl::StrCat("it has no ", what));
  };
  if (wrong.empty() && options.links.has_value()) {
    require(LinkBatches::TrainingPairs(folder), "training pairs, and no edges");
    require(manifest.valid_pairs,
            "validation pairs: import it with --valid-pairs or --valid-share");
  } else if (wrong.empty()) {
    require(GraphBatches::Labelled(folder, folder.train()), "labelled training nodes");
    require(GraphBatches::Labelled(folder, folder.valid()), "labelled validation nodes");
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(options.path, ": ", absl::StrJoin(wrong, "; ")));
}

// Where edges go one way alone, most of what neighbors tell is lost, and nothing else says so.
void WarnOfEdges(const GraphOptions& options, const GraphManifest& manifest) {
  const int64_t without = manifest.nodes_without_in_edges;
  if (without <= manifest.nodes / kFewWithoutInEdges || !options.on_warning) return;
  const double share = 100.0 * static_cast<double>(without) / static_cast<double>(manifest.nodes);
  options.on_warning(
      {kNodesWithoutInEdges,
       absl::StrFormat("%s: %.1f %% of the nodes (%d of %d) have no in-edge, so that no neighbor "
                       "tells anything about them%s",
                       options.path, share, without, manifest.nodes,
                       manifest.reverse_edges
                           ? ""
                           : "; the graph was imported with --directed: unless only one direction "
                             "has a meaning, import it with --reverse-edges")});
}

absl::StatusOr<std::shared_ptr<HostRows>> CopyRows(const GraphOptions& options,
                                                   const GraphFolder& folder, int ranks) {
  if (options.access == GraphAccess::kMapped) return nullptr;
  if (options.access == GraphAccess::kAuto) {
    const int64_t bytes = static_cast<int64_t>(folder.features().size() * sizeof(float));
    const absl::StatusOr<int64_t> available = AvailableMemory();
    // Others may be on this machine, and copy at the same time.
    if (!available.ok() || bytes > *available / 2 / ranks) return nullptr;
  }
  ThreadTeam team(options.threads);
  return HostRows::Copy(folder, &team);
}

struct OpenedGraph {
  std::shared_ptr<const GraphFolder> folder;
  // Null: features are read from the folder's mapping.
  std::shared_ptr<HostRows> rows;
};

absl::StatusOr<OpenedGraph> OpenData(const GraphOptions& options, int ranks) {
  LH_ASSIGN_OR_RETURN(GraphFolder opened, GraphFolder::Open(options.path));
  LH_RETURN_IF_ERROR(CheckGraph(options, opened));
  WarnOfEdges(options, opened.manifest());
  OpenedGraph graph{.folder = std::make_shared<const GraphFolder>(std::move(opened))};
  LH_ASSIGN_OR_RETURN(graph.rows, CopyRows(options, *graph.folder, ranks));
  return graph;
}

// As many as have the graph's nodes for seeds, and as many as sample its edges.
int64_t EvaluationSteps(const GraphManifest& manifest, const GraphSageShape& shape, int64_t batch) {
  int64_t edges = 1;
  for (const int64_t fanout : shape.fanout) edges += std::max<int64_t>(fanout, 0);
  return CeilDiv(manifest.nodes, batch) + CeilDiv(manifest.edges / edges, batch);
}

absl::StatusOr<Family> OpenGraph(const GraphOptions& options, const FamilyContext& context) {
  const absl::StatusOr<OpenedGraph> graph = OpenData(options, context.ranks);
  if (!graph.ok()) return AboutField(options.field, graph.status());
  const auto& [folder, rows] = *graph;
  const bool links = options.links.has_value();
  Family family{.unit_name = links ? "pairs" : "nodes"};
  LH_ASSIGN_OR_RETURN(family.model, GraphSage::Create(options.shape));
  const GraphBatches::Options batches{.fanout = options.shape.fanout,
                                      .seed = context.plan.seed,
                                      .pool = options.pool,
                                      .batch = context.plan.batch,
                                      .accumulation = context.plan.accumulation,
                                      .rank = context.rank,
                                      .ranks = context.ranks,
                                      .training_edges = options.training_edges,
                                      .threads = options.threads};
  if (links) {
    LH_ASSIGN_OR_RETURN(family.maker, LinkBatches::Create(batches, *options.links, folder, rows));
  } else {
    LH_ASSIGN_OR_RETURN(family.maker, GraphBatches::Create(batches, folder, rows));
  }
  for (auto* const stager : {&family.stager, &family.stager_beside}) {
    *stager =
        std::make_unique<GraphEvaluationStager>(folder, rows, std::make_unique<GraphStager>());
  }
  const GraphManifest& manifest = folder->manifest();
  family.data.push_back(
      {.path = options.path, .units = manifest.nodes, .sample = manifest.ContentDigest().low});
  // As SeedPlan cuts an epoch.
  const int64_t seeds = links ? LinkBatches::TrainingPairs(*folder) : manifest.train;
  family.units = seeds / CeilDiv(seeds, context.plan.batch);
  family.evaluation_steps = EvaluationSteps(manifest, options.shape, context.plan.batch);
  family.partial_loss = !links && GraphBatches::Labelled(*folder, folder->train()) < manifest.train;
  family.description = absl::StrFormat("; %d nodes, %d edges, %d training %s; features are %s",
                                       manifest.nodes, manifest.edges, seeds, family.unit_name,
                                       rows == nullptr ? "mapped from the file" : "in host memory");
  return family;
}

}  // namespace

OpenFamily GraphFamily(GraphOptions options) {
  return [options = std::move(options)](const FamilyContext& context) {
    return CatchTorch("preparing the model", [&] { return OpenGraph(options, context); });
  };
}

}  // namespace longhaul
