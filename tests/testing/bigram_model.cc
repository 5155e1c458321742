#include "tests/testing/bigram_model.h"

#include "ATen/TensorOperators.h"
#include "ATen/ops/embedding.h"
#include "worker/model/language_batch.h"
#include "worker/model/layers.h"

namespace longhaul {

BigramModel::BigramModel(int64_t vocab) {
  const TensorLayout table{"table", {vocab, vocab}, /*offset=*/0, vocab * vocab, /*decay=*/true};
  const TensorLayout bias{"bias", {vocab}, /*offset=*/0, vocab, /*decay=*/false};
  layout_.units = {{"embedding", UnitKind::kEmbedding, /*layer=*/-1, table.elements, {table}},
                   {"head", UnitKind::kHead, /*layer=*/-1, bias.elements, {bias}}};
}

at::Tensor BigramModel::Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                                const StagedBatch& batch) const {
  if (unit == 0) return at::embedding(weights[0], batch.tensors[kInputs]);
  return CrossEntropySum(x.to(at::kFloat) + weights[0], batch.tensors[kTargets],
                         batch.tensors[kLossMask])
      .unsqueeze(0);
}

}  // namespace longhaul
