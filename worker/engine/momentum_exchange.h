// The pool's side of 1-bit Adam (worker/optim/onebit_adam.h): decides when the variance is frozen, the
// same on every rank, and from then on turns the ranks' own gradients, which nobody reduced, into the
// averaged momentum, with one bit an element between the ranks. A unit is one buffer, in which rank r
// averages what it owns. A pool of one rank compresses nothing.
//
// With local steps (0/1 Adam, worker/optim/local_steps.h) ranks exchange nothing in most updates, and
// differ, until they synchronise: then what they stepped crosses in the same way.
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

  // Before an update: whether Decide has something to decide. Local.
  bool undecided() const { return !begun_ || optimizer_.options().var_update_scaler > 0; }
  // Freezes the variance if it is time; from then on whether the update changes it all the same.
  // Collective.
  absl::Status Decide();
  // In the update to come no rank's gradient is reduced: ranks exchange momentum, or nothing. Local.
  bool compresses() const { return begun_ && !changes_variance_; }
  // They exchange nothing: each steps by its own gradient. Local.
  bool steps_locally() const { return compresses() && optimizer_.StepsLocallyNext(); }
  // Ranks differ, since they took local steps. The same on every rank. Local.
  bool unsettled() const { return optimizer_.local_steps() > 0; }
  // After an update: so long that they are to synchronise. Local.
  bool synchronization_due() const { return optimizer_.SynchronizationDue(); }

  // `gradient`: this rank's own of the unit, so that the pool's is the sum over the ranks. It becomes
  // the pool's momentum, made of gradients multiplied by `scale`. Collective.
  absl::Status Average(int unit, const at::Tensor& gradient, double scale);

  // While ranks differ: `steps` becomes the mean of what they stepped in the unit, for SetSteps of its
  // subgroups; then Settled. Collective; the last two are local.
  absl::Status AverageSteps(int unit, const at::Tensor& steps);
  void SetSteps(const SubgroupUpdate& update) { optimizer_.Synchronize(update); }
  void Settled() { optimizer_.EndSynchronization(); }

  // How much compressing lost. Local.
  CodingLoss& loss() { return loss_; }

  // --- State, beside the optimizer's. Local, between two updates.

  // Follows the optimizer's, which was written. Feedback begins anew. There is no other state while
  // ranks hold the same: intervals between synchronisations follow from the number of updates.
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
  void DecideOnVariance();
  std::vector<uint8_t> AbsentOf(int unit);
  absl::Status Mean(int unit, const at::Tensor& values);

  const ModelLayout& layout_;
  const ShardPlan& plan_;
  PoolExchange& exchange_;
  OneBitAdam& optimizer_;
  VarianceWatch watch_;
  bool begun_ = false;                      // The variance was frozen.
  bool changes_variance_ = false;           // In the update to come, by VarianceSchedule.
  std::vector<CompressedAllReduce> units_;  // Empty until begun, and in a pool of one rank.
  CodingLoss loss_;
};

}  // namespace longhaul
