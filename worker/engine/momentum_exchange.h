// The collectives of 1-bit Adam (worker/optim/onebit_adam.h). It decides when the variance is
// frozen, in the same update on every rank. From then on it makes the averaged momentum from the
// ranks' own gradients, which are not reduced, with one bit for each element between the ranks. A
// unit is one buffer; rank r averages the elements that it owns. A pool of one rank compresses
// nothing.
//
// With local steps (0/1 Adam, worker/optim/local_steps.h) ranks exchange nothing in most updates,
// so their parameters differ. When they synchronise, the accumulated steps are averaged in the same
// way.
//
// It requires that every rank has everything (preset ddp), in host memory, since momentum must be
// whole on each rank.
//
// Methods marked local are called by the thread that computes; all others on the engine's queue of
// collectives. Errors: those of PoolExchange.
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

// The two error feedbacks of 1-bit Adam (CompressedAllReduce).
enum class Feedback { kWorker, kServer };

class MomentumExchange {
 public:
  // All arguments outlive the object.
  MomentumExchange(const ModelLayout& layout, const ShardPlan& plan, PoolExchange& exchange,
                   OneBitAdam& optimizer);

  // Whether Decide must be called before the next update. Local.
  bool undecided() const { return !begun_ || optimizer_.options().var_update_scaler > 0; }
  // Freezes the variance if it is time. Once it is frozen, decides whether the next update changes
  // it all the same. Collective.
  absl::Status Decide();
  // Whether the next update reduces no gradients: ranks exchange momentum, or nothing. Local.
  bool compresses() const { return begun_ && !changes_variance_; }
  // Whether ranks exchange nothing in the next update, and each steps by its own gradient. Local.
  bool steps_locally() const { return compresses() && optimizer_.StepsLocallyNext(); }
  // Whether parameters differ between ranks because of local steps. The same answer on all ranks.
  // Local.
  bool unsettled() const { return optimizer_.local_steps() > 0; }
  // Whether the ranks must synchronise after the last update. Local.
  bool synchronization_due() const { return optimizer_.SynchronizationDue(); }

  // `gradient` is this rank's own gradient of the unit; the pool's gradient is the sum over ranks.
  // It becomes the averaged momentum, made from gradients multiplied by `scale`. Collective.
  absl::Status Average(int unit, const at::Tensor& gradient, double scale);

  // The synchronisation of local steps. AverageSteps writes the mean of the ranks' accumulated
  // steps in the unit to `steps` (collective). Then SetSteps for each of its subgroups, and Settled
  // after all units (both local).
  absl::Status AverageSteps(int unit, const at::Tensor& steps);
  void SetSteps(const SubgroupUpdate& update) { optimizer_.Synchronize(update); }
  void Settled() { optimizer_.EndSynchronization(); }

  // The compression errors. Local.
  CodingLoss& loss() { return loss_; }

  // --- State that is not the optimizer's. Local, between two updates.

  // Restores the state. Call after the optimizer's state was written. The error feedback becomes
  // zero. While all ranks hold the same parameters there is no other state: the intervals between
  // synchronisations follow from the number of updates.
  void Resume(int64_t frozen_at, const VarianceLook& last_look);
  int64_t frozen_at() const { return optimizer_.frozen_at(); }
  const VarianceLook& last_look() const { return watch_.last(); }
  // The error feedback of a unit. kWorker: of all its elements. kServer: of those that this rank
  // owns. Empty until the variance is frozen, and in a pool of one rank.
  absl::Span<float> feedback(Feedback end, int unit);
  int64_t kept_bytes() const;

 private:
  // The 1-norm of the variance of the elements that this rank owns.
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
  // The variance was frozen.
  bool begun_ = false;
  // The next update changes the variance (VarianceSchedule).
  bool changes_variance_ = false;
  // Empty until the variance is frozen, and in a pool of one rank.
  std::vector<CompressedAllReduce> units_;
  CodingLoss loss_;
};

}  // namespace longhaul
