// Gathers pieces of a unit over the hops of the pool: from what a rank holds on level `wide` to
// what it holds on level `narrow`. Collective, blocks. Errors: those of PoolExchange.
#pragma once

#include "worker/engine/pool_exchange.h"
#include "worker/engine/shard_plan.h"
#include "worker/engine/unit_code.h"

namespace longhaul {

// `floats` has float32 elements of the unit from `first` on: at least those that this rank holds on
// `narrow`. Those that it holds on `wide` are given.
absl::Status GatherFloats(PoolExchange& exchange, const ShardPlan& plan, int unit,
                          const at::Tensor& floats, int64_t first, Level wide, Level narrow,
                          Use use);

// The same for a coded unit, all of which `coded` has room for.
absl::Status GatherCoded(PoolExchange& exchange, const ShardPlan& plan, const UnitCode& code,
                         const at::Tensor& coded, Level wide, Level narrow, Use use);

}  // namespace longhaul
