// The batches of a language model: a rank's share of windows of tokens, from one or several
// sources.
#pragma once

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/example_plan.h"

namespace longhaul {

// Fills in "document_starts" (batch.h) of an example that begins at token `first` of the data.
// `starts` has an element for each token that the model reads.
absl::Status ReadDocumentStarts(const Dataset& data, int64_t first, absl::Span<int64_t> starts);

class TokenBatches : public BatchMaker {
 public:
  struct Options {
    // `batch`: sequences of the pool in a step.
    int64_t context = 0, batch = 0;
    int rank = 0, ranks = 1;
    // Make "document_starts".
    bool separate_documents = false;
  };
  // The datasets are the sources of the plan, in its order.
  TokenBatches(const Options& options, std::vector<std::unique_ptr<Dataset>> datasets,
               const ExamplePlan& plan);

  absl::StatusOr<ExampleBatch> Make(int64_t step) const override;
  absl::StatusOr<ExampleBatch> MakeHeldOut(int64_t index, int64_t count) const override;

 private:
  absl::StatusOr<ExampleBatch> Read(const std::vector<ExamplePlan::Example>& examples) const;

  const Options options_;
  const std::vector<std::unique_ptr<Dataset>> datasets_;
  const ExamplePlan plan_;
};

}  // namespace longhaul
