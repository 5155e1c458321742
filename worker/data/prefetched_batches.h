// A BatchSource whose own thread makes batches ahead. At most one batch waits while another is
// made.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/patience.h"
#include "worker/data/batch.h"

namespace longhaul {

class PrefetchedBatches : public BatchSource {
 public:
  // `patience`: the longest that Take waits for the thread.
  explicit PrefetchedBatches(std::unique_ptr<BatchMaker> maker,
                             Patience patience = absl::Minutes(10));
  // Waits until the thread has made its current batch.
  ~PrefetchedBatches() override;

  void Prepare(int64_t step) override;
  absl::StatusOr<ExampleBatch> Take(int64_t step) override;
  absl::StatusOr<ExampleBatch> TakeHeldOut(int64_t index, int64_t count) override;
  absl::StatusOr<int64_t> HeldOutWeight(int64_t count) override;
  absl::StatusOr<ExampleBatch> TakeTest(int64_t index, int64_t count) override;
  int64_t TestWeight() const override;
  absl::Status Check() const override;

 private:
  void Work();
  bool Settled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<BatchMaker> maker_;
  const Patience patience_;
  absl::Mutex mutex_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  // The step of a batch that was asked for and not begun.
  std::optional<int64_t> wanted_ ABSL_GUARDED_BY(mutex_);
  bool making_ ABSL_GUARDED_BY(mutex_) = false;
  // The step of `ready_`.
  int64_t step_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::StatusOr<ExampleBatch>> ready_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace longhaul
