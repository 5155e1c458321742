// The pool's side of 1-bit Adam (worker/optim/onebit_adam.h): decides when the variance is frozen, the
// same on every rank, and from then on turns the ranks' own gradients, which nobody reduced, into the
// averaged momentum, with one bit an element between the ranks. A unit is one buffer, in which rank r
// averages what it owns. A pool of one rank compresses nothing.
//
// Where everything is on every rank (preset ddp), in host memory: momentum must be whole on each rank.
//
// Used on the engine's queue of collectives, but for what is marked local. Errors: those of
// PoolExchange.
#pragma once

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/layout/model_layout.h"
#include "worker/collective/compressed_all_reduce.h"
#include "worker/engine/pool_exchange.h"
#include "worker/engine/shard_plan.h"
#include "worker/engine/tile_coder.h"
#include "worker/optim/onebit_adam.h"
#include "worker/optim/variance_watch.h"

namespace longhaul {

// At which end of the exchange something was lost, and is owed.
enum class Feedback { kWorker, kServer };

class MomentumExchange {
 public:
  // All arguments outlive the object.
  MomentumExchange(const ModelLayout& layout, const ShardPlan& plan, PoolExchange& exchange,
                   OneBitAdam& optimizer);

  // Between two updates: freezes the variance if it is time. Collective.
  absl::Status Decide();
  // Local.
  bool begun() const { return begun_; }

  // `gradient`: this rank's own of the unit, so that the pool's is the sum over the ranks. It becomes
  // the pool's momentum, made of gradients multiplied by `scale`. Collective.
  absl::Status Average(int unit, const at::Tensor& gradient, double scale);

  // How much compressing lost since the last call. Local.
  CodingLoss::Sums TakeLoss() { return loss_.Take(); }

  // --- State, beside the optimizer's. Local, between two updates.

  // Follows the optimizer's, which was written. Feedback begins anew.
  void Resume(int64_t frozen_at, const VarianceLook& last_look);
  int64_t frozen_at() const { return optimizer_.frozen_at(); }
  const VarianceLook& last_look() const { return watch_.last(); }
  // Of a unit: kWorker of all its elements, kServer of those that this rank owns. Empty until begun,
  // and in a pool of one rank.
  absl::Span<float> feedback(Feedback end, int unit);
  int64_t kept_bytes() const;

 private:
  // Of the elements that this rank owns.
  double VarianceNorm();
  void Begin();
  std::vector<uint8_t> AbsentOf(int unit);

  const ModelLayout& layout_;
  const ShardPlan& plan_;
  PoolExchange& exchange_;
  OneBitAdam& optimizer_;
  VarianceWatch watch_;
  bool begun_ = false;
  std::vector<CompressedAllReduce> units_;  // Empty until begun, and in a pool of one rank.
  CodingLoss loss_;
};

}  // namespace longhaul
