// Sums gradients over the pool hop by hop, as the topology says: first inside the node, then across
// nodes, where each rank sums its part of the node's sum. With 32 bits a hop is a reduce-scatter.
// With fewer, ranks send each other coded parts (one all-to-all for each hop), which are decoded
// and added in float32 in the order of the ranks (qgZ of ZeRO++, arXiv 2306.10209: a value is coded
// once for each hop). A rank's own part is never coded. Gradients are scaled before, so that the
// sum is the mean.
//
// Collective; called on the engine's queue of collectives. Errors: those of PoolExchange. Throws as
// torch does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "common/layout/model_layout.h"
#include "worker/engine/pool_exchange.h"
#include "worker/engine/shard_plan.h"
#include "worker/engine/unit_code.h"

namespace longhaul {

class GradientReduction {
 public:
  // `computed_bits`: those of the type in which the model computes. `kernels`: see TileCoder.
  // `plan` and `exchange` outlive the object.
  GradientReduction(const ModelLayout& layout, const ShardPlan& plan, PoolExchange& exchange,
                    at::Device device, int computed_bits, const SegmentKernels* kernels = nullptr);

  // `flat` has float32 elements of the unit from `first` on: at least those that this rank holds on
  // level `narrow`. The elements that it holds on level `wide` become the sum over the ranks
  // between the two levels. The other elements become unspecified. If an element to be coded is not
  // finite, the sum is unspecified, too, and loss() says so.
  absl::Status Reduce(int unit, const at::Tensor& flat, int64_t first, Level narrow, Level wide);
  // The reverse: sends the part of the pool's sum that this rank owns to all ranks that hold it on
  // level `narrow`.
  absl::Status Spread(int unit, const at::Tensor& flat, int64_t first, Level narrow);

  // The coding errors of this rank. Read it when all reductions are done.
  CodingLoss& loss() { return loss_; }
  // The memory of the error feedback.
  int64_t kept_bytes() const;

  // --- The error feedback, between two steps.

  // Ranks have different error feedback for the same element. Only its sum over the ranks can be
  // restored in a pool of any size.
  bool has_feedback() const { return feedback_; }
  // Sums the error feedback of a unit over the ranks, into `owed` of the owners. Training goes on
  // as if it had not been called, since the clock decides when a pool saves. A restored pool has
  // the same sum on other ranks, so its next gradients differ in their last bits.
  absl::Status CollectErrors(int unit);
  // Sets the error feedback of the ranks so that its sum is `owed` of the owners; zero if that is
  // undefined.
  absl::Status SpreadErrors(int unit);
  // float32 in host memory: the error feedback, summed over the ranks, of the elements that this
  // rank owns. Undefined before CollectErrors, unless it was set.
  at::Tensor& owed(int unit) { return owed_[unit]; }
  const at::Tensor& owed(int unit) const { return owed_[unit]; }
  void ForgetOwed() { owed_.assign(owed_.size(), {}); }
  // Sets the error feedback to zero. Call on all ranks at the same step, while no reduction runs:
  // when a moving average is to be reset, and after a step that was skipped, since what its
  // reductions left there belongs to values that nobody applied, and may not be finite. Local.
  void ForgetErrors() { errors_.clear(); }

 private:
  absl::Status ReduceFloats(int unit, absl::Span<const Hop* const> hops, const at::Tensor& flat,
                            int64_t first);
  absl::Status ReduceCoded(int unit, absl::Span<const Hop* const> hops, const UnitValues& values);
  // The last hop of a reduction. Null: there are no hops.
  const Hop* LastHop() const;
  // This rank's error feedback in a hop, of all elements that it sends or keeps there.
  at::Tensor& ErrorsOf(int unit, const Hop& hop);
  // The part of it that belongs to what `rank` receives. Undefined without error feedback.
  at::Tensor ErrorFor(int unit, const Hop& hop, int rank);

  const ShardPlan& plan_;
  PoolExchange& exchange_;
  const at::Device device_;
  int bits_;
  const bool feedback_;
  // By unit. Empty if bits_ is 32.
  std::vector<std::unique_ptr<UnitCode>> codes_;
  // The codes of Spread, by unit. Empty if computed_bits is 32.
  std::vector<std::unique_ptr<UnitCode>> computed_;
  // By unit and the hop's narrow level.
  std::map<std::pair<int, Level>, at::Tensor> errors_;
  // By unit.
  std::vector<at::Tensor> owed_;
  CodingLoss loss_;
};

}  // namespace longhaul
