#include "worker/family/graph/graph_stager.h"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ops/from_blob.h"
#include "ATen/ops/tensor.h"
#include "absl/time/time.h"
#include "c10/core/Event.h"
#include "c10/core/StreamGuard.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "common/base/status_macros.h"
#include "worker/engine/device.h"
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

StagedBatch ViewsOf(const ExampleBatch& share, int part) {
  const auto whole = [&](const char* name) {
    return ViewOf<int64_t>(share, PartName(name, part), at::kLong);
  };
  StagedBatch staged{.tensors = std::vector<at::Tensor>(kGraphTensors)};
  staged.tensors[kNodes] = whole("nodes");
  if (!staged.tensors[kNodes].defined()) return staged;
  staged.tensors[kFeatures] = ViewOf<float>(share, PartName("features", part), at::kFloat);
  staged.tensors[kLevelEnds] = whole("level_ends");
  staged.tensors[kIndptr] = whole("indptr");
  staged.tensors[kSourceRows] = ViewOf<int32_t>(share, PartName("source_rows", part), at::kInt);
  staged.tensors[kSeedRows] = whole("seed_rows");
  staged.tensors[kLabels] = whole("labels");
  staged.tensors[kGroupEnds] = whole("group_ends");
  staged.tensors[kUncounted] = whole("uncounted");
  staged.tensors[kDropoutKey] = ViewOf<int64_t>(share, "dropout_key", at::kLong);
  const at::Tensor pairs = whole("pairs");
  staged.examples =
      pairs.defined() ? *pairs.const_data_ptr<int64_t>() : staged.tensors[kLabels].size(0);
  return staged;
}

constexpr absl::Duration kLastBatchPatience = absl::Minutes(1);

bool StaysOnHost(int tensor) {
  return tensor == kLevelEnds || tensor == kDropoutKey || tensor == kGroupEnds;
}

// Of the edges of all layers but the first, which is not differentiated in its input.
void AddEdgesBySource(StagedBatch& batch) {
  const at::Tensor& ends = batch.tensors[kLevelEnds];
  const int64_t layers = ends.size(0) - 1;
  if (layers < 2) return;
  const auto* const end_of = ends.const_data_ptr<int64_t>();
  const int64_t targets = end_of[layers - 2], sources = end_of[layers - 1];
  const auto* const indptr = batch.tensors[kIndptr].const_data_ptr<int64_t>();
  const auto* const rows = batch.tensors[kSourceRows].const_data_ptr<int32_t>();
  const int64_t edges = indptr[targets];
  std::vector<int64_t> starts(sources + 1);
  for (int64_t i = 0; i < edges; ++i) ++starts[rows[i] + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  std::vector<int64_t> next(starts.begin(), starts.end() - 1);
  std::vector<int32_t> by_source(edges), their_targets(edges);
  for (int64_t target = 0; target < targets; ++target) {
    for (int64_t i = indptr[target]; i < indptr[target + 1]; ++i) {
      const int64_t to = next[rows[i]]++;
      by_source[to] = static_cast<int32_t>(i);
      their_targets[to] = static_cast<int32_t>(target);
    }
  }
  batch.tensors[kSourceStarts] = at::tensor(starts, at::kLong);
  batch.tensors[kSourceEdges] = at::tensor(by_source, at::kInt);
  batch.tensors[kSourceTargets] = at::tensor(their_targets, at::kInt);
}

// Enqueues the copies on the current stream.
void CopyTo(at::Device device, StagedBatch& batch) {
  for (int i = 0; i < kGraphTensors; ++i) {
    at::Tensor& tensor = batch.tensors[i];
    if (!tensor.defined()) continue;
    // The batch ends before the device's work does.
    tensor = StaysOnHost(i) ? tensor.clone() : CopyToDevice(tensor, device);
  }
}

c10::Stream CurrentStreamOf(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// ExampleBatch::staged.
struct StagedParts {
  explicit StagedParts(c10::Device device) : ready(device.type()), done(device.type()) {}
  std::vector<StagedBatch> parts;
  // On the stream of StagedGraphBatches, and on that of training.
  c10::Event ready, done;
};

}  // namespace

struct StagedGraphBatches::Returned {
  absl::Mutex mutex;
  std::vector<std::unique_ptr<StagedParts>> batches ABSL_GUARDED_BY(mutex);

  // Frees them on the stream on which they were allocated, behind their readers.
  void FreeOn(const c10::Stream& stream) ABSL_LOCKS_EXCLUDED(mutex) {
    std::vector<std::unique_ptr<StagedParts>> trained;
    {
      const absl::MutexLock lock(&mutex);
      trained.swap(batches);
    }
    for (const auto& batch : trained) batch->done.block(stream);
  }
};

absl::StatusOr<StagedBatch> GraphStager::Stage(const ExampleBatch& share, int micro, int) {
  return CatchTorch("staging nodes", [&]() -> absl::StatusOr<StagedBatch> {
    if (share.staged != nullptr) {
      const auto& staged = *static_cast<const StagedParts*>(share.staged.get());
      staged.ready.block(CurrentStreamOf(device_));
      return staged.parts[micro];
    }
    StagedBatch staged = ViewsOf(share, micro);
    if (!device_.is_cpu() && staged.examples > 0) CopyTo(device_, staged);
    return staged;
  });
}

StagedGraphBatches::StagedGraphBatches(std::unique_ptr<BatchMaker> maker,
                                       std::unique_ptr<DeviceFeatures> features, int parts,
                                       c10::Device device)
    : maker_(std::move(maker)),
      parts_(parts),
      device_(device),
      stream_(c10::impl::VirtualGuardImpl(device.type())
                  .getStreamFromGlobalPool(device, /*isHighPriority=*/false)),
      returned_(std::make_shared<Returned>()),
      features_(std::move(features)) {
  // Rows may still be on their way there, on the stream of the thread that sent them.
  c10::Event sent(device.type());
  sent.record(CurrentStreamOf(device));
  sent.block(stream_);
}

// A gather that is under way reads the table.
StagedGraphBatches::~StagedGraphBatches() {
  CatchTorch("ending", [&] {
    const c10::StreamGuard guard(stream_);
    returned_->FreeOn(stream_);
    return AwaitDevice(device_, "the last batch", kLastBatchPatience);
  }).IgnoreError();
}

absl::StatusOr<ExampleBatch> StagedGraphBatches::Make(int64_t step) const {
  LH_ASSIGN_OR_RETURN(ExampleBatch batch, maker_->Make(step));
  return CatchTorch("staging nodes", [&]() -> absl::StatusOr<ExampleBatch> {
    const absl::MutexLock lock(&mutex_);
    const c10::StreamGuard guard(stream_);
    returned_->FreeOn(stream_);
    auto staged = std::make_unique<StagedParts>(device_);
    for (int part = 0; part < parts_; ++part) {
      StagedBatch views = ViewsOf(batch, part);
      if (views.examples > 0) {
        AddEdgesBySource(views);
        const absl::Span<const int64_t> nodes = batch.Values<int64_t>(PartName("nodes", part));
        LH_ASSIGN_OR_RETURN(views.tensors[kFeatures], features_->Gather(nodes));
        const at::Tensor features = std::exchange(views.tensors[kFeatures], at::Tensor());
        CopyTo(device_, views);
        views.tensors[kFeatures] = features;
      }
      staged->parts.push_back(std::move(views));
    }
    staged->ready.record(stream_);
    batch.tensors.clear();
    batch.staged = std::shared_ptr<void>(
        staged.release(), [device = device_, returned = returned_](void* ended) {
          std::unique_ptr<StagedParts> parts(static_cast<StagedParts*>(ended));
          const absl::Status recorded = CatchTorch("recording an event", [&] {
            parts->done.record(CurrentStreamOf(device));
            return absl::OkStatus();
          });
          const absl::MutexLock of_returned(&returned->mutex);
          // A device that has failed uses no memory again.
          returned->batches.push_back(std::move(parts));
        });
    return batch;
  });
}

}  // namespace longhaul
