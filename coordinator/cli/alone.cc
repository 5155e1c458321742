#include "coordinator/cli/alone.h"

#include <algorithm>

namespace longhaul::cli {
namespace {

v1::CodecSpec Exact() {
  v1::CodecSpec codec;
  codec.set_codec(v1::FP32);
  return codec;
}

}  // namespace

void TrainAlone(const std::string& pool, bool named, v1::JobSpec& spec) {
  if (!named) spec.set_name(spec.name() + "-alone");
  v1::PoolsSpec& pools = *spec.mutable_pools();
  pools.Clear();
  pools.set_min(1);
  pools.set_max(1);
  pools.add_names(pool);
  v1::SyncSpec& sync = *spec.mutable_sync();
  sync.set_mode(v1::LOCKSTEP);
  sync.clear_quorum();
  sync.set_alpha(1);
  sync.clear_outer();
  sync.mutable_outer()->set_lr(1);
  sync.mutable_outer()->set_momentum(0);
  *sync.mutable_up() = Exact();
  *sync.mutable_down() = Exact();
  if (!spec.has_data()) return;
  // Pools that may not take part have no data.
  auto& of_pools = *spec.mutable_data()->mutable_pools();
  of_pools.erase(std::remove_if(of_pools.begin(), of_pools.end(),
                                [&](const v1::PoolData& of) { return of.pool() != pool; }),
                 of_pools.end());
}

}  // namespace longhaul::cli
