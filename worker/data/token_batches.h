// Batches of a language model: windows of tokens of one source or of several, a rank's share of each.
#pragma once

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/example_plan.h"

namespace longhaul {

// starts[t] of an example that begins with token `first` of the data, as "document_starts" has it
// (batch.h), for the tokens that a model reads.
void ReadDocumentStarts(const Dataset& data, int64_t first, absl::Span<int64_t> starts);

class TokenBatches : public BatchMaker {
 public:
  struct Options {
    int64_t context = 0, batch = 0, vocab = 0;  // Batch: of the pool.
    int rank = 0, ranks = 1;
    bool separate_documents = false;  // Makes "document_starts".
  };
  // The datasets are the plan's sources, in its order.
  TokenBatches(const Options& options, std::vector<std::unique_ptr<Dataset>> datasets,
               const ExamplePlan& plan);

  absl::StatusOr<ExampleBatch> Make(int64_t step) const override;
  absl::StatusOr<ExampleBatch> MakeHeldOut(int64_t index, int64_t count) const override;

 private:
  absl::StatusOr<ExampleBatch> Read(const std::vector<ExamplePlan::Place>& places) const;

  const Options options_;
  const std::vector<std::unique_ptr<Dataset>> datasets_;
  const ExamplePlan plan_;
};

}  // namespace longhaul
