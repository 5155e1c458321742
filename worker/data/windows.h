// Which windows of the data a step trains on and an evaluation reads. A window is `context` + 1
// tokens: inputs, and the same shifted by one as targets. Pure values: a window is a function of
// (seed, pool, step, sequence), so the position in the data is just the step's number, on any
// number of ranks.
//
//   | training windows, anywhere in here                       | held out: evenly spaced windows |
//   0                                                          train_tokens tokens
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace longhaul {

class Windows {
 public:
  struct Options {
    int64_t tokens = 0;  // Of the whole data.
    int64_t context = 0;
    double eval_fraction = 0.05;  // Held out at the end, at least one window. In (0, 0.5].
    uint64_t seed = 0;
    int64_t pool = 0;  // The pool's ordinal: pools of one job see different windows.
  };
  // INVALID_ARGUMENT: the fraction is out of range, or the data is too short for one window of each
  // part.
  static absl::StatusOr<Windows> Create(const Options& options);

  // First token of a training window: uniform over all places.
  int64_t Train(int64_t step, int64_t sequence) const;
  // First token of the training window that is the `number`-th (from 0) where all windows, which then
  // do not overlap, are seen once before any is seen again, each time in another order.
  int64_t InEpochs(int64_t number) const;
  // First token of window `index` of `count` evenly spaced ones (they overlap where there is not
  // room).
  int64_t Eval(int64_t index, int64_t count) const;
  int64_t train_tokens() const { return train_tokens_; }

 private:
  Windows(const Options& options, int64_t train_tokens);

  int64_t tokens_, context_, train_tokens_;
  uint64_t key_;
};

// The sequences [first, first + count) of a batch that a rank handles: contiguous, in rank order,
// sizes differ by at most one; none for some ranks when the batch is smaller than the pool.
struct Share {
  int64_t first = 0, count = 0;
};
Share ShareOf(int64_t batch, int rank, int ranks);

}  // namespace longhaul
