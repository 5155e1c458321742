// Gathers the units of a model in the order in which passes over it use them, ahead of their use,
// and frees each after its last one. Every rank has the same uses in the same order, whether it has
// anything to compute or not.
//
// Used from one thread. Blocks while a gather is under way. Errors: those of the gathers. Throws as
// torch does.
#pragma once

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/collective_queue.h"
#include "worker/engine/compute_weights.h"
#include "worker/model/model.h"

namespace longhaul {

struct UnitUse {
  int unit = 0;
  Pass pass = Pass::kForward;
};

class WeightStream {
 public:
  // `ahead`: how many uses beyond the present one are gathered for. All outlive the object.
  WeightStream(const Model& model, ComputeWeights& weights, CollectiveQueue& queue,
               std::vector<UnitUse> uses, int ahead);
  // Frees what was gathered ahead.
  ~WeightStream();

  // The weights for the next use: the unit's own tensors, then the borrowed ones. Until Done.
  absl::StatusOr<std::vector<at::Tensor>> Take();
  void Done();

 private:
  struct Open {
    Pass pass = Pass::kForward;
    int users = 0;
    CollectiveQueue::Ticket ticket = 0;
  };

  std::vector<int> UnitsOf(int use) const;
  bool TryGather(int use);

  const Model& model_;
  ComputeWeights& weights_;
  CollectiveQueue& queue_;
  const std::vector<UnitUse> uses_;
  const int ahead_;
  int present_ = 0, gathered_ = 0;  // Uses below `gathered_` have their units open.
  std::map<int, Open> open_;        // By unit.
};

}  // namespace longhaul
