// A transformer for use, not for training: logits, loss, and continuation with a cache of keys and
// values. It computes on the CPU in float32. Callers see no tensors.
//
// Not thread-safe. Blocks; computes on the process's torch threads, whose number Load sets. All
// methods may return RESOURCE_EXHAUSTED (memory) and INTERNAL (torch).
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
  // Reads all parameters, and may return the errors of that. INVALID_ARGUMENT: an impossible shape.
  static absl::StatusOr<std::unique_ptr<LanguageModel>> Load(const TransformerShape& shape,
                                                             const InitialParameters& parameters,
                                                             int threads);
  ~LanguageModel();

  const TransformerShape& shape() const;

  // For the next two methods: `document_starts` is that of batch.h for the tokens that are read.
  // Empty: a sequence is one document.

  // Computes the logits after each token of one sequence. `take` receives [rows, vocab] for rows
  // from `first` on, some rows at a time. With documents, memory grows with the square of the
  // number of tokens. INVALID_ARGUMENT: no tokens, or one outside the vocabulary.
  absl::Status Logits(absl::Span<const int64_t> tokens,
                      absl::FunctionRef<absl::Status(int64_t first, absl::Span<const float>)> take,
                      absl::Span<const int64_t> document_starts = {});

  // Returns the sum of the cross-entropy, in nats, over sequences of context + 1 tokens that follow
  // each other in `tokens`. `loss_mask`: that of batch.h; empty: all targets count. DATA_LOSS: the
  // sum is not finite.
  absl::StatusOr<double> LossSum(absl::Span<const int64_t> tokens, int64_t context,
                                 absl::Span<const int64_t> document_starts = {},
                                 absl::Span<const int64_t> loss_mask = {});

  // A sequence that grows. The model must outlive it.
  class Continuation {
   public:
    virtual ~Continuation() = default;
    // Appends tokens. Returns the logits after the last of them, which are valid until the next
    // call. INVALID_ARGUMENT: no tokens; one outside the vocabulary; more than positions_max in
    // all. DATA_LOSS: the logits are not finite.
    virtual absl::StatusOr<absl::Span<const float>> Append(absl::Span<const int64_t> tokens) = 0;
    virtual int64_t positions() const = 0;
  };
  // Begins a sequence of at most `positions_max` tokens, and takes the memory for all of them.
  absl::StatusOr<std::unique_ptr<Continuation>> Begin(int64_t positions_max) const;

 private:
  class Weights;
  class Cached;
  explicit LanguageModel(std::unique_ptr<Weights> weights);

  std::unique_ptr<Weights> weights_;
};

}  // namespace longhaul
