// Makes the tensors of graph batches. They are views of the batch, in host memory.
#pragma once

#include "worker/family/batch_stager.h"

namespace longhaul {

// Stateless, so thread-safe.
class GraphStager : public BatchStager {
 public:
  // `of` is GraphBatches::Options::accumulation, or 1 for a held-out batch.
  absl::StatusOr<StagedBatch> Stage(const ExampleBatch& share, int micro, int of) override;
};

}  // namespace longhaul
