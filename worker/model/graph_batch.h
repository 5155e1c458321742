// The batches of graph models. N: rows, one for each node of each level of a sample, seeds first
// (worker/graph/neighbor_sampler.h).
//
// An evaluation's batch has kLayerTargets. It is computed layer by layer with all neighbors: N is
// all nodes, in host memory, and may be the mapping of a file; kNodes, kLevelEnds, kIndptr,
// kSourceRows, kSeedRows and kDropoutKey are undefined.
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
  kLabels,      // int64 [examples]: its class. -1: unlabelled; it does not count. Of an
                // evaluation: those of the last layer's targets.
  // Of link prediction, which has no labels. Its seeds are the sources of the examples (pairs),
  // their targets, and nodes that are linked with no source: the negatives.
  kGroupEnds,   // int64, in host memory: where each group of pairs with common negatives ends.
                // Undefined: each pair has negatives of its own (training).
  kUncounted,   // int64: places pair * negatives + negative that do not count.
  kDropoutKey,  // int64 [1], in host memory. Undefined: nothing is dropped (evaluation).
  // Of an evaluation, in host memory:
  kLayerTargets,     // int64: the nodes of each layer (worker/graph/layer_targets.h).
  kLayerTargetEnds,  // int64 [layers]: where each layer ends in them.
  kGraphIndptr,      // int64 [N + 1]: where the in-edges of each node begin.
  kGraphSources,     // int32 or int64 [edges].
  // Only on a device. The edges of layers after the first, by the rows that they are from: see
  // AggregateBackJob (worker/graph/cuda/sage_kernels.h).
  kSourceStarts,
  kSourceEdges,
  kSourceTargets,
  kGraphTensors,
};

}  // namespace longhaul
