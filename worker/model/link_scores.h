// The metrics of link prediction. A pair's score is the dot product of its ends' rows.
#pragma once

#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/model/staged_batch.h"

namespace longhaul {

// "loss": half of softplus(-score of the pair), half of the mean of softplus(score) over its
// negatives: binary cross-entropy with as much weight on positives as on negatives.
// "auc": the share of its negatives below the pair, ties count half.
// "mrr", "hits_1", "hits_3", "hits_10": 1 / rank, and whether the rank is at most 1, 3 or 10, with
// rank = 1 + negatives above + half of the ties.
// A pair without negatives has the rank 1 and an auc of 0.5. Scores that are not numbers count
// against the pair.
std::vector<std::string> LinkMetrics();

// Their sums over the pairs of a batch (worker/model/graph_batch.h), the first differentiable.
// `rows`: those of the seeds, in their order.
at::Tensor SumsOfLinks(const at::Tensor& rows, const StagedBatch& batch);

}  // namespace longhaul
