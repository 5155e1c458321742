// Brings graph batches to the device that computes. In host memory their tensors are views of the
// batch. On a device, batches of training come ahead: StagedGraphBatches brings the next one there
// on a stream of its own while this one trains, gathers its features, and so holds two.
#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "c10/core/Device.h"
#include "c10/core/Stream.h"
#include "worker/family/batch_stager.h"
#include "worker/family/graph/device_features.h"

namespace longhaul {

// Stateless, so thread-safe.
class GraphStager : public BatchStager {
 public:
  explicit GraphStager(c10::Device device = c10::Device(c10::kCPU)) : device_(device) {}
  // `of` is GraphBatches::Options::accumulation, or 1 for a held-out batch.
  absl::StatusOr<StagedBatch> Stage(const ExampleBatch& share, int micro, int of) override;

 private:
  const c10::Device device_;
};

// Thread-safe. Batches that it made end before it.
class StagedGraphBatches : public BatchMaker {
 public:
  // `maker` makes batches of `parts` parts without features. `features`: of the same graph, made on
  // the calling thread's stream. Throws as torch does.
  StagedGraphBatches(std::unique_ptr<BatchMaker> maker, std::unique_ptr<DeviceFeatures> features,
                     int parts, c10::Device device);
  ~StagedGraphBatches() override;

  // Errors, also: those of torch_status.h.
  absl::StatusOr<ExampleBatch> Make(int64_t step) const override;
  absl::StatusOr<ExampleBatch> MakeHeldOut(int64_t index, int64_t count) const override {
    return maker_->MakeHeldOut(index, count);
  }
  absl::StatusOr<int64_t> HeldOutWeight(int64_t count) const override {
    return maker_->HeldOutWeight(count);
  }
  absl::StatusOr<ExampleBatch> MakeTest(int64_t index, int64_t count) const override {
    return maker_->MakeTest(index, count);
  }
  int64_t TestWeight() const override { return maker_->TestWeight(); }
  absl::Status Check() const override { return maker_->Check(); }

 private:
  struct Returned;

  const std::unique_ptr<BatchMaker> maker_;
  const int parts_;
  const c10::Device device_;
  const c10::Stream stream_;
  // Batches that were trained on, whose memory is this stream's to use again.
  const std::shared_ptr<Returned> returned_;
  mutable absl::Mutex mutex_;
  const std::unique_ptr<DeviceFeatures> features_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace longhaul
