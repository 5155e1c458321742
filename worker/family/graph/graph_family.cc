#include "worker/family/graph/graph_family.h"

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
#include "worker/family/graph/graph_stager.h"
#include "worker/model/graph_sage.h"

namespace longhaul {
namespace {

// A list of differences is complete, so that a site needs one look.
absl::Status CheckGraph(const GraphOptions& options, const GraphFolder& folder) {
  const GraphManifest& manifest = folder.manifest();
  std::vector<std::string> wrong;
  const auto compare = [&](const char* what, int64_t here, int64_t expected) {
    if (here != expected)
      wrong.push_back(absl::StrFormat("it has %d %s, the job's model %d", here, what, expected));
  };
  compare("columns", manifest.columns, options.shape.columns);
  compare("classes", manifest.classes, options.shape.classes);
  if (wrong.empty() && !options.schema.empty() && manifest.SchemaDigest() != options.schema) {
    wrong.push_back(absl::StrCat(
        "its columns or classes have other names, or another order, than those of the "
        "graph with which the job was submitted (schema digest ",
        manifest.SchemaDigest().substr(0, 12), " here, ", options.schema.substr(0, 12), " there)"));
  }
  if (wrong.empty() && GraphBatches::Labelled(folder, folder.train()) == 0)
    wrong.push_back("it has no labelled training nodes");
  if (wrong.empty() && GraphBatches::Labelled(folder, folder.valid()) == 0)
    wrong.push_back("it has no labelled validation nodes");
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(options.path, ": ", absl::StrJoin(wrong, "; ")));
}

absl::StatusOr<std::shared_ptr<const GraphFolder>> OpenData(const GraphOptions& options) {
  LH_ASSIGN_OR_RETURN(GraphFolder opened, GraphFolder::Open(options.path));
  LH_RETURN_IF_ERROR(CheckGraph(options, opened));
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

// Of batches of the beginning, whose gathers are timed.
absl::StatusOr<std::vector<int64_t>> SampleRows(const GraphBatches::Options& options,
                                                std::shared_ptr<const GraphFolder> folder) {
  GraphBatches::Options sampled = options;
  sampled.gathers = false;
  LH_ASSIGN_OR_RETURN(const auto batches,
                      GraphBatches::Create(sampled, std::move(folder), nullptr));
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
  LH_ASSIGN_OR_RETURN(const std::vector<int64_t> sample, SampleRows(batches, folder));
  LH_ASSIGN_OR_RETURN(Features features, OpenFeatures(options.features, folder, sample,
                                                      {.device = context.device,
                                                       .kernels = kernels.gather,
                                                       .ranks_of_node = context.ranks_of_node,
                                                       .threads = options.threads}));
  if (!features.instead.empty() && options.on_warning)
    options.on_warning({kFeatureAccess, absl::StrCat(options.field, ": ", features.instead)});
  return features;
}

absl::StatusOr<Family> OpenGraph(const GraphOptions& options, const FamilyContext& context) {
  const absl::StatusOr<std::shared_ptr<const GraphFolder>> opened = OpenData(options);
  if (!opened.ok()) return AboutField(options.field, opened.status());
  const std::shared_ptr<const GraphFolder>& folder = *opened;
  LH_ASSIGN_OR_RETURN(const GraphKernels kernels, KernelsFor(options, context.device));
  Family family{.unit_name = "nodes"};
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
  LH_ASSIGN_OR_RETURN(family.maker, GraphBatches::Create(batches, folder, features->rows));
  if (features->on_device != nullptr) {
    family.maker = std::make_unique<StagedGraphBatches>(std::move(family.maker),
                                                        std::move(features->on_device),
                                                        batches.accumulation, context.device);
  }
  for (auto* const stager : {&family.stager, &family.stager_beside})
    *stager = std::make_unique<GraphStager>(context.device);
  const GraphManifest& manifest = folder->manifest();
  family.data.push_back(
      {.path = options.path, .units = manifest.nodes, .sample = manifest.ContentDigest().low});
  // As SeedPlan cuts an epoch.
  family.units = manifest.train / CeilDiv(manifest.train, context.plan.batch);
  family.partial_loss = GraphBatches::Labelled(*folder, folder->train()) < manifest.train;
  family.features = features->description;
  family.description =
      absl::StrFormat("; %d nodes, %d edges, %d training nodes; features by %s", manifest.nodes,
                      manifest.edges, manifest.train, features->description);
  return family;
}

}  // namespace

OpenFamily GraphFamily(GraphOptions options) {
  return [options = std::move(options)](const FamilyContext& context) {
    return CatchTorch("preparing the model", [&] { return OpenGraph(options, context); });
  };
}

}  // namespace longhaul
