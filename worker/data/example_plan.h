// Decides which example each place in a batch gets: its source and its first token. It is a pure
// function of (seed, pool, step, sequence), for any number of ranks. So the step's number is the
// position in the data. Immutable, so thread-safe.
//
// Sources share a pool's examples by weight, exactly in each block of kMixtureBlock examples; the
// seed shuffles the order in a block. So the number of an example within its source is known
// without counting, and each source can be read in epochs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/windows.h"

namespace longhaul {

enum class DataOrder { kDraws, kEpochs };

class ExamplePlan {
 public:
  static constexpr int64_t kMixtureBlock = 65536;

  struct Source {
    // For messages.
    std::string name;
    int64_t tokens = 0;
    // Above 0.
    double weight = 1;
    // See Windows::Options.
    int64_t row = 0;
  };
  struct Options {
    // At least one.
    std::vector<Source> sources;
    DataOrder order = DataOrder::kDraws;
    // `batch`: sequences of the pool in a step.
    int64_t context = 0, batch = 0;
    // The part at the end of each source that is held out.
    double eval_fraction = 0.05;
    uint64_t seed = 0;
    // The pool's ordinal. Pools of one job see different examples.
    int64_t pool = 0;
  };
  struct Example {
    int source = 0;
    // The number of its first token in the source.
    int64_t first = 0;
    friend bool operator==(const Example&, const Example&) = default;
  };

  // INVALID_ARGUMENT: as Windows::Create, with the source's name; or the share of a source is too
  // small.
  static absl::StatusOr<ExamplePlan> Create(const Options& options);

  // `step` counts from 1. `sequence` is the place in the pool's batch.
  Example Train(int64_t step, int64_t sequence) const;
  // Held-out example `index` of `count`. The sources share them by weight; in each source they are
  // evenly spaced.
  Example Eval(int64_t index, int64_t count) const;

 private:
  ExamplePlan(const Options& options, std::vector<Windows> windows, std::vector<int64_t> ends);

  DataOrder order_;
  int64_t batch_;
  uint64_t key_;
  // By source.
  std::vector<Windows> windows_;
  // Where each source's share of a block ends.
  std::vector<int64_t> ends_;
};

}  // namespace longhaul
