// What a trainer is fed, and the seam through which it comes. The family of a model supplies a
// BatchMaker; PrefetchedBatches makes of it a BatchSource that works beside training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// Dense, row by row.
struct BatchTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<int64_t> values;
};

// What one rank works on. Of a language model: "tokens" [examples, context + 1], and where documents
// are separate "document_starts" [examples, context]: for each token that the model reads the first
// one of its document, counted from the example's; 0 where it began before.
struct ExampleBatch {
  std::vector<BatchTensor> tensors;
  int64_t examples = 0;  // 0 for a rank of a pool that is larger than its batch.
};

// Batches as pure functions: of the step, or of the number of a held-out batch. Thread-safe. Blocks
// on the disk. Errors: DATA_LOSS: the data changed since it was opened.
class BatchMaker {
 public:
  virtual ~BatchMaker() = default;
  virtual absl::StatusOr<ExampleBatch> Make(int64_t step) const = 0;
  // Batch `index` of `count` of the held-out data.
  virtual absl::StatusOr<ExampleBatch> MakeHeldOut(int64_t index, int64_t count) const = 0;
};

// Not thread-safe but for TakeHeldOut, which any thread may call beside the others.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The batch of that step will be wanted next. Never blocks.
  virtual void Prepare(int64_t step) = 0;
  // The batch of any step, prepared or not. Blocks until it is there. Errors: those of the maker;
  // ABORTED: it did not come for a long time.
  virtual absl::StatusOr<ExampleBatch> Take(int64_t step) = 0;
  virtual absl::StatusOr<ExampleBatch> TakeHeldOut(int64_t index, int64_t count) = 0;
};

}  // namespace longhaul
