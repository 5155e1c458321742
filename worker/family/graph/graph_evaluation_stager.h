// Makes the tensors of an evaluation's batch: views of the batch and of the graph itself.
#pragma once

#include <memory>

#include "common/graph/graph_folder.h"
#include "worker/family/batch_stager.h"
#include "worker/graph/feature_table.h"

namespace longhaul {

// Other batches are left to `training`. Called from one thread at a time.
class GraphEvaluationStager : public BatchStager {
 public:
  // `rows`: a copy of the features. Null: they are read from the folder's mapping.
  GraphEvaluationStager(std::shared_ptr<const GraphFolder> folder,
                        std::shared_ptr<const HostRows> rows,
                        std::unique_ptr<BatchStager> training);

  absl::StatusOr<StagedBatch> Stage(const ExampleBatch& share, int micro, int of) override;

 private:
  const std::shared_ptr<const GraphFolder> folder_;
  const std::shared_ptr<const HostRows> rows_;
  const std::unique_ptr<BatchStager> training_;
};

}  // namespace longhaul
