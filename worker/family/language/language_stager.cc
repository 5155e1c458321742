#include "worker/family/language/language_stager.h"

#include "ATen/ops/from_blob.h"
#include "common/base/check.h"
#include "common/base/share.h"
#include "worker/engine/device.h"
#include "worker/engine/torch_status.h"

namespace longhaul {

StagedBatch StageTokens(const TokenBatch& batch, at::Device device, int micro, int of) {
  LH_CHECK(static_cast<int64_t>(batch.tokens.size()) == batch.sequences * (batch.context + 1),
           "a batch has holes");
  const Share part = ShareOf(batch.sequences, micro, of);
  if (part.count == 0) return {};
  // Undefined if the batch has no such values.
  const auto moved = [&](absl::Span<const int64_t> values, int64_t width) {
    if (values.empty()) return at::Tensor();
    LH_CHECK(static_cast<int64_t>(values.size()) == batch.sequences * width,
             "documents or a loss mask are of another batch");
    const at::Tensor host = at::from_blob(const_cast<int64_t*>(values.data()) + part.first * width,
                                          {part.count, width}, c10::TensorOptions(at::kLong));
    return device.is_cpu() ? host : CopyToDevice(host, device);
  };
  const at::Tensor tokens = moved(batch.tokens, batch.context + 1);
  LanguageBatch staged{tokens.narrow(1, 0, batch.context), tokens.narrow(1, 1, batch.context),
                       moved(batch.document_starts, batch.context),
                       moved(batch.loss_mask, batch.context)};
  if (staged.loss_mask_BT.defined()) staged.loss_mask_BT = staged.loss_mask_BT.to(at::kBool);
  return staged;
}

absl::StatusOr<StagedBatch> LanguageStager::Stage(const ExampleBatch& share, int micro, int of) {
  return CatchTorch("staging tokens", [&]() -> absl::StatusOr<StagedBatch> {
    const TokenBatch batch{share.examples, context_, share.Values("tokens"),
                           share.Values("document_starts"), share.Values("loss_mask")};
    return StageTokens(batch, device_, micro, of);
  });
}

}  // namespace longhaul
