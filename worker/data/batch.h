// Batches of examples, and the interfaces through which a trainer gets them. Each family of models
// has a BatchMaker; PrefetchedBatches turns it into a BatchSource that works beside training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul {

// Dense, row by row.
struct BatchTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<int64_t> values;
};

// One rank's share of a batch. For a language model: "tokens" [examples, context + 1]; and, if
// documents are kept separate, "document_starts" [examples, context]: for each token that the model
// reads, the place in the example where its document begins, or 0 if it began before the example.
// And, if some of the data has one, "loss_mask" [examples, context]: 1 for each target on which the
// loss is, else 0.
struct ExampleBatch {
  // The values of the tensor of that name. Empty: the batch has none.
  absl::Span<const int64_t> Values(absl::string_view name) const {
    for (const BatchTensor& tensor : tensors) {
      if (tensor.name == name) return tensor.values;
    }
    return {};
  }

  std::vector<BatchTensor> tensors;
  // A rank may have none, if the pool has more ranks than the batch examples.
  int64_t examples = 0;
  // On how many targets of the whole batch, of all ranks, the loss is.
  int64_t pool_targets = 0;
};

// Makes batches, as pure functions of the step or of the number of a held-out batch. Thread-safe.
// Blocks on the disk. Errors: DATA_LOSS: the data changed since it was opened.
class BatchMaker {
 public:
  virtual ~BatchMaker() = default;
  virtual absl::StatusOr<ExampleBatch> Make(int64_t step) const = 0;
  // Batch `index` of `count` of the held-out data.
  virtual absl::StatusOr<ExampleBatch> MakeHeldOut(int64_t index, int64_t count) const = 0;
  // On how many targets of all `count` batches of held-out data, of all ranks, the loss is.
  virtual absl::StatusOr<int64_t> HeldOutTargets(int64_t count) const = 0;
};

// Not thread-safe, except TakeHeldOut and HeldOutTargets, which any thread may call at any time.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Announces that the batch of `step` is needed next. Does not block.
  virtual void Prepare(int64_t step) = 0;
  // Returns the batch of any step, prepared or not. Blocks until it is made. Errors: those of the
  // maker; ABORTED: it took too long.
  virtual absl::StatusOr<ExampleBatch> Take(int64_t step) = 0;
  virtual absl::StatusOr<ExampleBatch> TakeHeldOut(int64_t index, int64_t count) = 0;
  virtual absl::StatusOr<int64_t> HeldOutTargets(int64_t count) = 0;
};

}  // namespace longhaul
