// Sums gradients over the pool, hop by hop: first inside the node, then across nodes what each rank
// has of the node's sum, as the topology says. In 32 bits a hop is a reduce-scatter; in fewer, ranks
// send each other coded parts (one all-to-all a hop), which are decoded and added in float32 in the
// order of the ranks (qgZ of ZeRO++, arXiv 2306.10209: what is summed was coded once a hop). A
// rank's own part is never coded. Sums are exact means of what was sent: gradients come scaled.
//
// Collective; used on the engine's queue of collectives. Errors: those of PoolExchange. Throws as
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
  // `computed_bits`: of what the model computes with. `kernels`: see TileCoder. `plan` and
  // `exchange` outlive the object.
  GradientReduction(const ModelLayout& layout, const ShardPlan& plan, PoolExchange& exchange,
                    at::Device device, int computed_bits, const SegmentKernels* kernels = nullptr);

  // `flat`: float32 elements of the unit from `first` on, at least what this rank holds of `narrow`.
  // What it holds of `wide` becomes the sum over the ranks between the two levels; the rest holds
  // unspecified values. So does the sum if an element is not finite that is to be coded: Take says
  // so.
  absl::Status Reduce(int unit, const at::Tensor& flat, int64_t first, Level narrow, Level wide);
  // The other way round: what this rank owns of the pool's sum, on all ranks that hold `narrow` of
  // it.
  absl::Status Spread(int unit, const at::Tensor& flat, int64_t first, Level narrow);

  // What this rank found out, when what it has submitted is done.
  CodingLoss& loss() { return loss_; }
  // Of the error feedback.
  int64_t kept_bytes() const;

  // --- Error feedback between two steps. Ranks owe different amounts of the same element; their sum
  // is what does not depend on how many ranks there are.

  bool has_feedback() const { return feedback_; }
  // Sums what the ranks owe of a unit, which its owners then have in `owed`. What is owed from now on
  // is that sum again, as after SpreadErrors: a rank that goes on and one that is restored from it
  // give the same bits.
  absl::Status CollectErrors(int unit);
  // Makes ranks owe what the owners' `owed` says; nothing where that is empty.
  absl::Status SpreadErrors(int unit);
  // float32 in host memory: what all ranks owe together of the elements that this rank owns.
  // Undefined before CollectErrors, unless it was set.
  at::Tensor& owed(int unit) { return owed_[unit]; }
  const at::Tensor& owed(int unit) const { return owed_[unit]; }
  void ForgetOwed() { owed_.assign(owed_.size(), {}); }

 private:
  absl::Status ReduceFloats(int unit, absl::Span<const Hop* const> hops, const at::Tensor& flat,
                            int64_t first);
  absl::Status ReduceCoded(int unit, absl::Span<const Hop* const> hops, const UnitValues& values);
  // The last hop that gradients take. Null: none.
  const Hop* LastHop() const;
  // What this rank owes in a hop, of all that it holds then.
  at::Tensor& ErrorsOf(int unit, const Hop& hop);
  // What a hop owes to `rank`. Undefined without error feedback.
  at::Tensor ErrorFor(int unit, const Hop& hop, int rank);

  const ShardPlan& plan_;
  PoolExchange& exchange_;
  const at::Device device_;
  int bits_;
  const bool feedback_;
  std::vector<std::unique_ptr<UnitCode>> codes_;        // By unit. Of bits_; empty if they are 32.
  std::vector<std::unique_ptr<UnitCode>> computed_;     // Of Spread; empty if 32.
  std::map<std::pair<int, Level>, at::Tensor> errors_;  // By unit and the hop's narrow level.
  std::vector<at::Tensor> owed_;                        // By unit.
  CodingLoss loss_;
};

}  // namespace longhaul
