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

  // What this rank found out since the last call, when what it has submitted is done.
  CodingLoss::Sums Take() { return loss_.Take(); }
  // Of the error feedback.
  int64_t kept_bytes() const;

 private:
  absl::Status ReduceCoded(int unit, absl::Span<const Hop* const> hops, const UnitValues& values);
  // What a hop owes to `rank`. Undefined without error feedback.
  at::Tensor ErrorFor(int unit, const Hop& hop, int rank);

  const ShardPlan& plan_;
  PoolExchange& exchange_;
  const at::Device device_;
  int bits_;
  std::vector<std::unique_ptr<UnitCode>> codes_;        // By unit. Of bits_; empty if they are 32.
  std::vector<std::unique_ptr<UnitCode>> computed_;     // Of Spread; empty if 32.
  std::map<std::pair<int, Level>, at::Tensor> errors_;  // By unit and the hop's narrow level.
  CodingLoss loss_;
};

}  // namespace longhaul
