#include "worker/family/graph/graph_stager.h"

#include <string>
#include <vector>

#include "ATen/ops/from_blob.h"
#include "worker/engine/torch_status.h"
#include "worker/family/graph/graph_batches.h"
#include "worker/model/graph_batch.h"

namespace longhaul {
namespace {

template <typename T>
at::Tensor ViewOf(const ExampleBatch& batch, const std::string& name, at::ScalarType type) {
  for (const BatchTensor& tensor : batch.tensors) {
    if (tensor.name != name) continue;
    const absl::Span<const T> values = tensor.As<T>();
    return at::from_blob(const_cast<T*>(values.data()), tensor.shape, c10::TensorOptions(type));
  }
  return {};
}

}  // namespace

absl::StatusOr<StagedBatch> GraphStager::Stage(const ExampleBatch& share, int micro, int) {
  return CatchTorch("staging nodes", [&]() -> absl::StatusOr<StagedBatch> {
    const auto whole = [&](const char* name) {
      return ViewOf<int64_t>(share, PartName(name, micro), at::kLong);
    };
    StagedBatch staged{.tensors = std::vector<at::Tensor>(kGraphTensors)};
    staged.tensors[kFeatures] = ViewOf<float>(share, PartName("features", micro), at::kFloat);
    if (!staged.tensors[kFeatures].defined()) return staged;
    staged.tensors[kNodes] = whole("nodes");
    staged.tensors[kLevelEnds] = whole("level_ends");
    staged.tensors[kIndptr] = whole("indptr");
    staged.tensors[kSourceRows] = ViewOf<int32_t>(share, PartName("source_rows", micro), at::kInt);
    staged.tensors[kSeedRows] = whole("seed_rows");
    staged.tensors[kLabels] = whole("labels");
    staged.tensors[kGroupEnds] = whole("group_ends");
    staged.tensors[kUncounted] = whole("uncounted");
    staged.tensors[kDropoutKey] = ViewOf<int64_t>(share, "dropout_key", at::kLong);
    const at::Tensor pairs = whole("pairs");
    staged.examples =
        pairs.defined() ? *pairs.const_data_ptr<int64_t>() : staged.tensors[kLabels].size(0);
    return staged;
  });
}

}  // namespace longhaul
