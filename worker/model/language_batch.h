// The batches of language models. B: sequences, T: positions.
#pragma once

#include "worker/model/staged_batch.h"

namespace longhaul {

// The places of a StagedBatch's tensors.
enum LanguageTensor {
  kInputs,
  kTargets,
  kDocumentStarts,
  kLossMask,
  kDocumentMask,
  kLanguageTensors,
};

struct LanguageBatch {
  // Tokens, int64.
  at::Tensor inputs_BT, targets_BT;
  // For each position, where its document begins, int64. Attention does not look before that.
  // Undefined: each sequence is one document.
  at::Tensor document_starts_BT;
  // The targets on which the loss is, bool. Undefined: all.
  at::Tensor loss_mask_BT;
  // DocumentMask (layers.h) of the starts, which TransformerLm::Prepare makes. FusedPass does not
  // read it.
  at::Tensor mask_B1TT;

  operator StagedBatch() const {  // NOLINT: it is the same batch.
    return {{inputs_BT, targets_BT, document_starts_BT, loss_mask_BT, mask_B1TT},
            inputs_BT.size(0)};
  }
};

}  // namespace longhaul
