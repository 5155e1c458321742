// Evaluates beside training: evaluations one after another, each batch by batch, on a thread of low
// priority, and on threads that torch makes for it, which inherit that.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace longhaul {

class EvaluationThread {
 public:
  // One batch of an evaluation. Dropped once all are done.
  using Batch = std::function<absl::StatusOr<double>(int64_t index)>;

  // Evaluations of so many batches each.
  explicit EvaluationThread(int64_t batches);
  // Waits for the batch under way; evaluations that are not done are given up.
  ~EvaluationThread();

  // Thread-safe, as all that follows. The caller bounds how many are not taken.
  void Begin(Batch batch);
  // Whether the oldest that was not taken is done. There is one.
  bool Done() const;
  // Its batches' values, or the first error; waits for it.
  absl::StatusOr<std::vector<double>> Take();

 private:
  struct Evaluation {
    Batch batch;
    absl::StatusOr<std::vector<double>> values = std::vector<double>();
    bool done = false;
  };

  void Work();
  absl::StatusOr<std::vector<double>> Run(const Batch& batch);
  Evaluation* Next() ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const int64_t batches_;
  mutable absl::Mutex mutex_;
  std::deque<Evaluation> evaluations_
      ABSL_GUARDED_BY(mutex_);  // Oldest first; not moved by others.
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace longhaul
