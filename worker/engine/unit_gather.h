// Gathers pieces of a unit over the hops of the pool: what was split over a wide level becomes whole
// on each group of a narrower one. Collective. Errors: those of PoolExchange.
#pragma once

#include "worker/engine/pool_exchange.h"
#include "worker/engine/shard_plan.h"
#include "worker/engine/unit_code.h"

namespace longhaul {

// `floats`: float32 elements of the unit from `first` on, at least those that are whole on `narrow`.
// What this rank holds of `wide` is given.
absl::Status GatherFloats(PoolExchange& exchange, const ShardPlan& plan, int unit,
                          const at::Tensor& floats, int64_t first, Level wide, Level narrow,
                          Use use);

// `coded`: the coded unit.
absl::Status GatherCoded(PoolExchange& exchange, const ShardPlan& plan, const UnitCode& code,
                         const at::Tensor& coded, Level wide, Level narrow, Use use);

}  // namespace longhaul
