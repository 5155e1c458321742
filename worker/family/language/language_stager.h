// Brings sequences of tokens to the device that computes.
#pragma once

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "worker/family/batch_stager.h"
#include "worker/model/language_batch.h"

namespace longhaul {

// Sequences of context + 1 tokens each, one after another, in host memory. There may be none.
struct TokenBatch {
  int64_t sequences = 0, context = 0;
  absl::Span<const int64_t> tokens;
  // [sequences, context]: see LanguageBatch. Empty: each sequence is one document.
  absl::Span<const int64_t> document_starts;
  // [sequences, context]: 1 for a target on which the loss is, else 0. Empty: it is on all.
  absl::Span<const int64_t> loss_mask;
};

// A LanguageBatch of micro-batch `micro` of `of`: an even part of the sequences. On a CPU its
// tensors are views of the tokens. Throws as torch does.
StagedBatch StageTokens(const TokenBatch& batch, at::Device device, int micro = 0, int of = 1);

// Stateless, so thread-safe.
class LanguageStager : public BatchStager {
 public:
  LanguageStager(int64_t context, at::Device device) : context_(context), device_(device) {}
  absl::StatusOr<StagedBatch> Stage(const ExampleBatch& share, int micro, int of) override;

 private:
  const int64_t context_;
  const at::Device device_;
};

}  // namespace longhaul
