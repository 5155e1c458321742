#include "worker/family/graph/graph_evaluation_stager.h"

#include <utility>

#include "worker/engine/torch_status.h"
#include "worker/family/graph/graph_batches.h"
#include "worker/model/graph_layer.h"

namespace longhaul {
GraphEvaluationStager::GraphEvaluationStager(std::shared_ptr<const GraphFolder> folder,
                                             std::shared_ptr<const HostRows> rows,
                                             std::unique_ptr<BatchStager> training)
    : folder_(std::move(folder)), rows_(std::move(rows)), training_(std::move(training)) {}

absl::StatusOr<StagedBatch> GraphEvaluationStager::Stage(const ExampleBatch& share, int micro,
                                                         int of) {
  const absl::Span<const int64_t> targets = share.Values(PartName("layer_targets", 0));
  if (targets.empty()) return training_->Stage(share, micro, of);
  return CatchTorch("staging nodes", [&]() -> absl::StatusOr<StagedBatch> {
    const GraphEdges edges = folder_->edges();
    const WholeGraph graph{
        .nodes = folder_->nodes(),
        .columns = folder_->columns(),
        .features = rows_ == nullptr ? folder_->features().data() : rows_->data(),
        .indptr = edges.indptr,
        .sources = edges.sources,
        .wide_sources = edges.wide_sources};
    return BatchByNodes(graph, targets, share.Values(PartName("layer_target_ends", 0)),
                        share.Values(PartName("labels", 0)));
  });
}

}  // namespace longhaul
