// What a partition of a pool costs: the bytes that its ranks receive from each other in a step, and
// the state that they keep. Counts what the engine exchanges, piece by piece, so the bytes are
// exact. Pure functions.
#pragma once

#include <cstdint>

#include "common/layout/model_layout.h"
#include "common/partition/partition_map.h"
#include "common/partition/topology.h"

namespace longhaul::plan {

struct PartitionSetting {
  ModelLayout layout;
  Topology topology;
  // CheckTopology holds.
  PartitionMap map;
  // The model computes in bf16, with float32 masters. False: in float32.
  bool bf16 = true;
  // Micro-batches of a step.
  int accumulation = 1;
};

// Bytes by the narrowest level that sender and receiver share: means over the pool's ranks of what
// comes from the rank's pair, from other pairs of its node, and from other nodes.
struct LevelBytes {
  double pair = 0, node = 0, pool = 0;
  double sum() const { return pair + node + pool; }
};

struct UseBytes {
  LevelBytes payload;
  // Of quantized pieces, with padding.
  LevelBytes scales;
  LevelBytes total() const;
};

// Received in one step, by use: weights for forward and for backward, gradients or momentum, and
// weights after the update.
struct PartitionTraffic {
  UseBytes forward, backward, gradient, refresh;
  LevelBytes total() const;
};
// For AdamW. 1-bit Adam exchanges momentum in place of gradients once its variance is frozen. A
// tied embedding counts twice for forward: it is not kept from its own use until the head's, if
// fewer units are gathered ahead than the model has layers.
PartitionTraffic TrafficOf(const PartitionSetting& setting);

// What a rank keeps between two steps, in bytes: means over the ranks.
struct PartitionState {
  double weights = 0, secondary = 0, gradients = 0;
  // Masters and the two moments of AdamW.
  double optimizer = 0;
  // Of quantized gradients.
  double error_feedback = 0;
  double sum() const { return weights + secondary + gradients + optimizer + error_feedback; }
};
PartitionState StateOf(const PartitionSetting& setting);

}  // namespace longhaul::plan
