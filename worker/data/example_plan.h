// Which example a place in a batch gets: of which source, and from which token on. A pure function of
// (seed, pool, step, sequence), whatever the number of ranks: the position in the data is the step's
// number.
//
// Sources share a pool's examples by weight, exactly so over each kMixtureBlock of them: the examples
// of a block are dealt in an order that the seed shuffles. So the number of an example within its
// source is known without counting, and each source can be read in epochs.
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
    std::string name;  // For messages.
    int64_t tokens = 0;
    double weight = 1;  // Above 0.
  };
  struct Options {
    std::vector<Source> sources;  // At least one.
    DataOrder order = DataOrder::kDraws;
    int64_t context = 0, batch = 0;  // Batch: sequences of the pool in a step.
    double eval_fraction = 0.05;     // Held out at the end of each source.
    uint64_t seed = 0;
    int64_t pool = 0;  // The pool's ordinal: pools of one job see different examples.
  };
  struct Place {
    int source = 0;
    int64_t first = 0;  // Token.
    friend bool operator==(const Place&, const Place&) = default;
  };

  // INVALID_ARGUMENT: Windows::Create, with the source's name; a weight that is too small a share.
  static absl::StatusOr<ExamplePlan> Create(const Options& options);

  // Steps count from 1. Sequence: of the pool's batch.
  Place Train(int64_t step, int64_t sequence) const;
  // Held-out example `index` of `count`: evenly spaced in each source, by weight.
  Place Eval(int64_t index, int64_t count) const;

 private:
  ExamplePlan(const Options& options, std::vector<Windows> windows, std::vector<int64_t> ends);

  DataOrder order_;
  int64_t batch_;
  uint64_t key_;
  std::vector<Windows> windows_;  // Of each source.
  std::vector<int64_t> ends_;     // Of each source's share of a block.
};

}  // namespace longhaul
