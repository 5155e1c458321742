// The batches of a language model: a rank's share of windows of tokens, from one or several
// sources.
#pragma once

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
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
  absl::StatusOr<int64_t> HeldOutWeight(int64_t count) const override;

 private:
  // `example`: by its place in the pool's batch.
  absl::StatusOr<ExampleBatch> Read(
      absl::FunctionRef<ExamplePlan::Example(int64_t place)> example) const;
  // On how many targets of these the loss is.
  absl::StatusOr<int64_t> TargetsOf(
      int64_t examples, absl::FunctionRef<ExamplePlan::Example(int64_t place)> example) const;
  // Fills in "loss_mask" (batch.h) of an example.
  absl::Status ReadLossMask(const ExamplePlan::Example& example, absl::Span<int64_t> mask) const;

  const Options options_;
  const std::vector<std::unique_ptr<Dataset>> datasets_;
  const ExamplePlan plan_;
  // Of some dataset the loss is not on all targets.
  const bool masked_;
};

}  // namespace longhaul
