// Gathers the units of a model ahead of their use, in the order in which the passes use them, and
// frees each unit after its last use. Every rank has the same uses in the same order, also a rank
// that has nothing to compute.
//
// Called from one thread. Blocks until a gather is done. Errors: those of the gathers. Throws as
// torch does.
#pragma once

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/compute_weights.h"
#include "worker/engine/stream_queue.h"
#include "worker/model/model.h"

namespace longhaul {

struct UnitUse {
  int unit = 0;
  Pass pass = Pass::kForward;
  // Reads the tensors that the unit borrows, too.
  bool borrows = true;
};

class WeightStream {
 public:
  // `ahead`: how many uses after the current one are gathered. The references outlive the object.
  WeightStream(const Model& model, ComputeWeights& weights, StreamQueue& queue,
               std::vector<UnitUse> uses, int ahead);
  // Frees what was gathered ahead.
  ~WeightStream();

  // The weights for the next use, valid until Done: the unit's own tensors, then the borrowed ones.
  absl::StatusOr<std::vector<at::Tensor>> Take();
  void Done();

 private:
  struct Open {
    Pass pass = Pass::kForward;
    int users = 0;
    StreamQueue::Ticket ticket = 0;
  };

  std::vector<TensorRef> BorrowedBy(int use) const;
  std::vector<int> UnitsOf(int use) const;
  bool TryGather(int use);

  const Model& model_;
  ComputeWeights& weights_;
  StreamQueue& queue_;
  const std::vector<UnitUse> uses_;
  const int ahead_;
  // The current use. Uses below `gathered_` have their units open.
  int present_ = 0, gathered_ = 0;
  // By unit.
  std::map<int, Open> open_;
};

}  // namespace longhaul
