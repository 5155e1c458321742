// A transformer that is used, not trained: logits, loss, and continuation with a cache of keys and
// values. On the CPU, in float32. Callers see no tensors.
//
// Not thread-safe; works on the threads of the process that Load sets. Errors: RESOURCE_EXHAUSTED
// (memory), INTERNAL (torch).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/layout/initial_parameters.h"
#include "common/layout/model_layout.h"

namespace longhaul {

class LanguageModel {
 public:
  // Reads all parameters; also their errors. INVALID_ARGUMENT: an impossible shape.
  static absl::StatusOr<std::unique_ptr<LanguageModel>> Load(const TransformerShape& shape,
                                                             const InitialParameters& parameters,
                                                             int threads);
  ~LanguageModel();

  const TransformerShape& shape() const;

  // `document_starts`, of both: "document_starts" of batch.h for the tokens that are read. Empty: a
  // sequence is one document.

  // Logits behind each token of one sequence: `take` gets [rows, vocab] for rows from `first` on, some
  // at a time. INVALID_ARGUMENT: no tokens, or one that is not of the vocabulary. With documents
  // memory grows with the square of their number of tokens.
  absl::Status Logits(absl::Span<const int64_t> tokens,
                      absl::FunctionRef<absl::Status(int64_t first, absl::Span<const float>)> take,
                      absl::Span<const int64_t> document_starts = {});

  // Sum of the cross-entropy over sequences of context + 1 tokens each, one after another, in nats.
  absl::StatusOr<double> LossSum(absl::Span<const int64_t> tokens, int64_t context,
                                 absl::Span<const int64_t> document_starts = {});

  // A sequence that grows. Outlived by its model.
  class Continuation {
   public:
    virtual ~Continuation() = default;
    // Appends tokens. Returns the logits behind the last of them, valid until the next call.
    // INVALID_ARGUMENT: no tokens; one that is not of the vocabulary; more than positions_max.
    virtual absl::StatusOr<absl::Span<const float>> Append(absl::Span<const int64_t> tokens) = 0;
    virtual int64_t positions() const = 0;
  };
  // Of at most `positions_max` tokens, for which it takes memory.
  absl::StatusOr<std::unique_ptr<Continuation>> Begin(int64_t positions_max) const;

 private:
  class Weights;
  class Cached;
  explicit LanguageModel(std::unique_ptr<Weights> weights);

  std::unique_ptr<Weights> weights_;
};

}  // namespace longhaul
