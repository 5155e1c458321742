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
#include "common/graph/graph_folder.h"
#include "worker/engine/torch_status.h"
#include "worker/family/family.h"
#include "worker/family/graph/feature_access.h"
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
  const bool links = options.links.has_value();
  std::vector<std::string> wrong;
  const auto compare = [&](const char* what, int64_t here, int64_t expected) {
    if (here != expected)
      wrong.push_back(absl::StrFormat("it has %d %s, the job's model %d", here, what, expected));
  };
  compare("columns", manifest.columns, options.shape.columns);
  if (!links) compare("classes", manifest.classes, options.shape.classes);
  const std::string whole = manifest.SchemaDigest();
  const std::string digest = links ? manifest.WithoutClasses().SchemaDigest() : whole;
  // A job on links may also name the digest of a graph with its classes.
  if (wrong.empty() && !options.schema.empty() && options.schema != digest &&
      options.schema != whole) {
    wrong.push_back(absl::StrCat(
        "its columns", links ? "" : " or classes",
        " have other names, or another order, than those of the graph with which the job was "
        "submitted (schema digest ",
        digest.substr(0, 12), " here, ", options.schema.substr(0, 12), " there)"));
  }
  const auto require = [&](int64_t count, const char* what) {
    if (count == 0) wrong.push_back(absl::StrCat("it has no ", what));
  };
  if (wrong.empty() && links) {
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

absl::StatusOr<std::shared_ptr<const GraphFolder>> OpenData(const GraphOptions& options) {
  LH_ASSIGN_OR_RETURN(GraphFolder opened, GraphFolder::Open(options.path));
  LH_RETURN_IF_ERROR(CheckGraph(options, opened));
  WarnOfEdges(options, opened.manifest());
  return std::make_shared<const GraphFolder>(std::move(opened));
}

absl::StatusOr<GraphKernels> KernelsFor(const GraphOptions& options, at::Device device) {
  GraphKernels kernels = options.kernels;
  if (device.is_cpu()) return kernels;
  if (kernels.gather == nullptr) {
    LH_ASSIGN_OR_RETURN(kernels.gather, LoadCudaGatherKernels());
  }
  if (kernels.sage == nullptr) {
    LH_ASSIGN_OR_RETURN(kernels.sage, LoadCudaSageKernels());
  }
  return kernels;
}

absl::StatusOr<std::unique_ptr<GraphBatches>> BatchesOf(const std::optional<LinkOptions>& links,
                                                        const GraphBatches::Options& options,
                                                        std::shared_ptr<const GraphFolder> folder,
                                                        std::shared_ptr<HostRows> rows) {
  if (links.has_value())
    return LinkBatches::Create(options, *links, std::move(folder), std::move(rows));
  return GraphBatches::Create(options, std::move(folder), std::move(rows));
}

// Of batches of the beginning, whose gathers are timed.
absl::StatusOr<std::vector<int64_t>> SampleRows(const std::optional<LinkOptions>& links,
                                                const GraphBatches::Options& options,
                                                std::shared_ptr<const GraphFolder> folder) {
  GraphBatches::Options sampled = options;
  sampled.gathers = false;
  LH_ASSIGN_OR_RETURN(const auto batches, BatchesOf(links, sampled, std::move(folder), nullptr));
  std::vector<int64_t> rows;
  for (const int64_t step : {1, 2}) {
    LH_ASSIGN_OR_RETURN(const ExampleBatch batch, batches->Make(step));
    for (int part = 0; part < options.accumulation; ++part) {
      const auto nodes = batch.Values<int64_t>(PartName("nodes", part));
      rows.insert(rows.end(), nodes.begin(), nodes.end());
    }
  }
  return rows;
}

absl::StatusOr<Features> OpenFeaturesOf(const GraphOptions& options, const FamilyContext& context,
                                        const GraphBatches::Options& batches,
                                        const GraphKernels& kernels,
                                        const std::shared_ptr<const GraphFolder>& folder) {
  LH_ASSIGN_OR_RETURN(const std::vector<int64_t> sample,
                      SampleRows(options.links, batches, folder));
  LH_ASSIGN_OR_RETURN(Features features, OpenFeatures(options.features, folder, sample,
                                                      {.device = context.device,
                                                       .kernels = kernels.gather,
                                                       .ranks_of_node = context.ranks_of_node,
                                                       .threads = options.threads}));
  if (!features.instead.empty() && options.on_warning)
    options.on_warning({kFeatureAccess, absl::StrCat(options.field, ": ", features.instead)});
  return features;
}

// As many as have the graph's nodes for seeds, and as many as sample its edges.
int64_t EvaluationSteps(const GraphManifest& manifest, const GraphSageShape& shape, int64_t batch) {
  int64_t edges = 1;
  for (const int64_t fanout : shape.fanout) edges += std::max<int64_t>(fanout, 0);
  return CeilDiv(manifest.nodes, batch) + CeilDiv(manifest.edges / edges, batch);
}

absl::StatusOr<Family> OpenGraph(const GraphOptions& options, const FamilyContext& context) {
  const absl::StatusOr<std::shared_ptr<const GraphFolder>> opened = OpenData(options);
  if (!opened.ok()) return AboutField(options.field, opened.status());
  const std::shared_ptr<const GraphFolder>& folder = *opened;
  LH_ASSIGN_OR_RETURN(const GraphKernels kernels, KernelsFor(options, context.device));
  const bool links = options.links.has_value();
  Family family{.unit_name = links ? "pairs" : "nodes"};
  LH_ASSIGN_OR_RETURN(family.model, GraphSage::Create(options.shape, kernels.sage));
  const GraphBatches::Options batches{.fanout = options.shape.fanout,
                                      .seed = context.plan.seed,
                                      .pool = options.pool,
                                      .batch = context.plan.batch,
                                      .accumulation = context.plan.accumulation,
                                      .rank = context.rank,
                                      .ranks = context.ranks,
                                      .training_edges = options.training_edges,
                                      .threads = options.threads,
                                      .gathers = context.device.is_cpu()};
  absl::StatusOr<Features> features = OpenFeaturesOf(options, context, batches, kernels, folder);
  if (!features.ok()) return AboutField(options.field, features.status());
  LH_ASSIGN_OR_RETURN(family.maker, BatchesOf(options.links, batches, folder, features->rows));
  if (features->on_device != nullptr) {
    family.maker = std::make_unique<StagedGraphBatches>(std::move(family.maker),
                                                        std::move(features->on_device),
                                                        batches.accumulation, context.device);
  }
  for (auto* const stager : {&family.stager, &family.stager_beside}) {
    *stager = std::make_unique<GraphEvaluationStager>(
        folder, features->rows, std::make_unique<GraphStager>(context.device));
  }
  const GraphManifest& manifest = folder->manifest();
  family.data.push_back(
      {.path = options.path, .units = manifest.nodes, .sample = manifest.ContentDigest().low});
  // As SeedPlan cuts an epoch.
  const int64_t seeds = links ? LinkBatches::TrainingPairs(*folder) : manifest.train;
  family.units = seeds / CeilDiv(seeds, context.plan.batch);
  family.evaluation_steps = EvaluationSteps(manifest, options.shape, context.plan.batch);
  family.partial_loss = !links && GraphBatches::Labelled(*folder, folder->train()) < manifest.train;
  family.features = features->description;
  family.description =
      absl::StrFormat("; %d nodes, %d edges, %d training %s; features by %s", manifest.nodes,
                      manifest.edges, seeds, family.unit_name, features->description);
  return family;
}

}  // namespace

OpenFamily GraphFamily(GraphOptions options) {
  return [options = std::move(options)](const FamilyContext& context) {
    return CatchTorch("preparing the model", [&] { return OpenGraph(options, context); });
  };
}

}  // namespace longhaul
