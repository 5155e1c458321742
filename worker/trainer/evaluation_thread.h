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
#include "common/base/patience.h"

namespace longhaul {

class EvaluationThread {
 public:
  // Computes the sums of one batch of an evaluation. Destroyed when all batches are done.
  using Sums = std::vector<double>;
  using Batch = std::function<absl::StatusOr<Sums>(int64_t index)>;

  // Each evaluation has this many batches. `patience`: the longest that Take waits.
  EvaluationThread(int64_t batches, Patience patience);
  // Waits for the batch in progress. Evaluations that are not done are given up.
  ~EvaluationThread();

  // Thread-safe, as all methods. Does not block. The caller bounds how many wait to be taken.
  void Begin(Batch batch);
  // Whether the oldest evaluation that was not taken is done. There must be one.
  bool Done() const;
  // The sums of that evaluation's batches, or the first error. Waits until it is done.
  // DEADLINE_EXCEEDED: it takes too long; it is not taken.
  absl::StatusOr<std::vector<Sums>> Take();

 private:
  struct Evaluation {
    Batch batch;
    absl::StatusOr<std::vector<Sums>> sums = std::vector<Sums>();
    bool done = false;
  };

  void Work();
  absl::StatusOr<std::vector<Sums>> Run(const Batch& batch);
  Evaluation* Next() ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const int64_t batches_;
  const Patience patience_;
  mutable absl::Mutex mutex_;
  // Oldest first. A deque, since the thread works on an element while others are added.
  std::deque<Evaluation> evaluations_ ABSL_GUARDED_BY(mutex_);
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace longhaul
