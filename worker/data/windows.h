// Decides which windows of the data a step trains on, and an evaluation reads. A window is
// `context` + 1 tokens: the inputs, and the same shifted by one as targets. Pure values: a window
// is a function of (seed, pool, step, sequence), so the step's number is the position in the data,
// for any number of ranks.
//
// Data of rows has one window in each row, and no others.
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
    // Of the whole data.
    int64_t tokens = 0;
    int64_t context = 0;
    // The part at the end that is held out, at least one window. In (0, 0.5].
    double eval_fraction = 0.05;
    uint64_t seed = 0;
    // The pool's ordinal. Pools of one job see different windows.
    int64_t pool = 0;
    // The data is rows of so many tokens: context + 1. 0: it is not.
    int64_t row = 0;
  };
  // INVALID_ARGUMENT: the fraction is out of range, or a part of the data is too short for one
  // window.
  static absl::StatusOr<Windows> Create(const Options& options);

  // The first token of a training window that is drawn uniformly from all places, or rows.
  int64_t Train(int64_t step, int64_t sequence) const;
  // The first token of the `number`-th training window (from 0), if training is in epochs: windows
  // do not overlap, and every epoch visits each of them once, in another order.
  int64_t InEpochs(int64_t number) const;
  // The first token of held-out window `index` of `count`, which are evenly spaced. They overlap if
  // there are more than fit.
  int64_t Eval(int64_t index, int64_t count) const;
  int64_t train_tokens() const { return train_tokens_; }

 private:
  Windows(const Options& options, int64_t train_tokens);

  int64_t tokens_, context_, train_tokens_, row_;
  uint64_t key_;
};

}  // namespace longhaul
