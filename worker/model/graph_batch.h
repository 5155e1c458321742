// The batches of graph models. N: rows, one for each node of each level of a sample, seeds first
// (worker/graph/neighbor_sampler.h).
#pragma once

#include "worker/model/staged_batch.h"

namespace longhaul {

// The places of a StagedBatch's tensors.
enum GraphTensor {
  kFeatures,    // float32 [N, columns].
  kNodes,       // int64 [N]: the graph's node of each row.
  kLevelEnds,   // int64 [layers + 1], in host memory: where each level ends.
  kIndptr,      // int64: of all rows but those of the last level, and one more.
  kSourceRows,  // int32: the rows that pass their values.
  kSeedRows,    // int64 [examples]: the row of each seed.
  kLabels,      // int64 [examples]: its class. -1: unlabelled; it does not count.
  kDropoutKey,  // int64 [1], in host memory. Undefined: nothing is dropped (evaluation).
  // Only on a device. The edges of layers after the first, by the rows that they are from: see
  // AggregateBackJob (worker/graph/cuda/sage_kernels.h).
  kSourceStarts,
  kSourceEdges,
  kSourceTargets,
  kGraphTensors,
};

}  // namespace longhaul
