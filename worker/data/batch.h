// Batches of examples, and the interfaces through which a trainer gets them. Each family of models
// has a BatchMaker; PrefetchedBatches turns it into a BatchSource that works beside training.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/huge_pages.h"

namespace longhaul {

// Dense, row by row. Floats may be hundreds of megabytes, as the features of nodes are, which are
// mapped and freed for each batch: with pages of the usual size that is much of a step's work.
struct BatchTensor {
  template <typename T>
  using ValuesOf =
      std::conditional_t<std::is_same_v<T, float>, HugePageVector<float>, std::vector<T>>;

  std::string name;
  std::vector<int64_t> shape;
  std::variant<ValuesOf<int64_t>, ValuesOf<int32_t>, ValuesOf<float>> values;

  // T: the type of the values.
  template <typename T>
  absl::Span<const T> As() const {
    const auto* const typed = std::get_if<ValuesOf<T>>(&values);
    LH_CHECK(typed != nullptr, "a tensor has values of another type");
    return *typed;
  }
};

// One rank's share of a batch. For a language model, all int64: "tokens" [examples, context + 1];
// and, if documents are kept separate, "document_starts" [examples, context]: for each token that
// the model reads, the place in the example where its document begins, or 0 if it began before the
// example. And, if some of the data has one, "loss_mask" [examples, context]: 1 for each target on
// which the loss is, else 0.
struct ExampleBatch {
  // The values of the tensor of that name. Empty: the batch has none.
  template <typename T = int64_t>
  absl::Span<const T> Values(absl::string_view name) const {
    for (const BatchTensor& tensor : tensors) {
      if (tensor.name == name) return tensor.As<T>();
    }
    return {};
  }

  std::vector<BatchTensor> tensors;
  // A rank may have none, if the pool has more ranks than the batch examples.
  int64_t examples = 0;
  // What the loss of the whole batch, of all ranks, is divided by. For a language model: on how
  // many targets the loss is.
  int64_t pool_weight = 0;
  // What the maker has brought to the device already, for the family's stager. Null: nothing. It
  // ends on the thread that trains, after what reads it was enqueued.
  std::shared_ptr<void> staged;
};

// Makes batches, as pure functions of the step or of the number of a held-out batch. Thread-safe.
// Blocks on the disk. Errors: DATA_LOSS: the data changed since it was opened.
class BatchMaker {
 public:
  virtual ~BatchMaker() = default;
  virtual absl::StatusOr<ExampleBatch> Make(int64_t step) const = 0;
  // Batch `index` of `count` of the held-out data.
  virtual absl::StatusOr<ExampleBatch> MakeHeldOut(int64_t index, int64_t count) const = 0;
  // What the loss of all `count` batches of held-out data, of all ranks, is divided by.
  virtual absl::StatusOr<int64_t> HeldOutWeight(int64_t count) const = 0;
  // The same of test data, which is evaluated at the end. A weight of 0: there is none.
  virtual absl::StatusOr<ExampleBatch> MakeTest(int64_t index, int64_t count) const {
    return ExampleBatch();
  }
  virtual int64_t TestWeight() const { return 0; }
  // For what is computed from the data itself, after its batch was made: it counts if it was done
  // before a call that returns OK.
  virtual absl::Status Check() const { return absl::OkStatus(); }
};

// Not thread-safe, except for the methods of held-out and test data and Check, which any thread may
// call at any time.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Announces that the batch of `step` is needed next. Does not block.
  virtual void Prepare(int64_t step) = 0;
  // Returns the batch of any step, prepared or not. Blocks until it is made. Errors: those of the
  // maker; ABORTED: it took too long.
  virtual absl::StatusOr<ExampleBatch> Take(int64_t step) = 0;
  virtual absl::StatusOr<ExampleBatch> TakeHeldOut(int64_t index, int64_t count) = 0;
  virtual absl::StatusOr<int64_t> HeldOutWeight(int64_t count) = 0;
  virtual absl::StatusOr<ExampleBatch> TakeTest(int64_t index, int64_t count) = 0;
  virtual int64_t TestWeight() const = 0;
  virtual absl::Status Check() const = 0;
};

}  // namespace longhaul
