#include "worker/model/link_scores.h"

#include "ATen/TensorOperators.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/full_like.h"
#include "ATen/ops/matmul.h"
#include "ATen/ops/ones_like.h"
#include "ATen/ops/softplus.h"
#include "ATen/ops/stack.h"
#include "ATen/ops/where.h"
#include "c10/util/Exception.h"
#include "worker/model/graph_batch.h"

namespace longhaul {
namespace {

// [pairs, negatives of a pair].
at::Tensor ScoresOfNegatives(const at::Tensor& sources, const at::Tensor& negatives,
                             const at::Tensor& group_ends) {
  if (!group_ends.defined()) {
    const at::Tensor of_pairs =
        negatives.view({sources.size(0), negatives.size(0) / sources.size(0), sources.size(1)});
    return (sources.unsqueeze(1) * of_pairs).sum(2);
  }
  const int64_t groups = group_ends.size(0), each = negatives.size(0) / groups;
  std::vector<at::Tensor> scores;
  for (int64_t group = 0, begin = 0; group < groups; ++group) {
    const int64_t end = group_ends.const_data_ptr<int64_t>()[group];
    scores.push_back(at::matmul(sources.narrow(0, begin, end - begin),
                                negatives.narrow(0, group * each, each).t()));
    begin = end;
  }
  return at::cat(scores);
}

}  // namespace

std::vector<std::string> LinkMetrics() {
  return {"loss", "auc", "mrr", "hits_1", "hits_3", "hits_10"};
}

at::Tensor SumsOfLinks(const at::Tensor& rows, const StagedBatch& batch) {
  const int64_t pairs = batch.examples;
  TORCH_CHECK(rows.size(0) > 2 * pairs, "pairs have negatives");
  const at::Tensor sources = rows.narrow(0, 0, pairs), targets = rows.narrow(0, pairs, pairs);
  const at::Tensor score = (sources * targets).sum(1);
  const at::Tensor negatives = ScoresOfNegatives(
      sources, rows.narrow(0, 2 * pairs, rows.size(0) - 2 * pairs), batch.tensors[kGroupEnds]);
  at::Tensor counts = at::ones_like(negatives.detach());
  counts.view({-1}).index_fill_(0, batch.tensors[kUncounted], 0);
  const at::Tensor count = counts.sum(1);
  const at::Tensor loss =
      at::softplus(-score) / 2 + (at::softplus(negatives) * counts).sum(1) / count.clamp_min(1) / 2;
  const at::Tensor pair = score.detach().unsqueeze(1), others = negatives.detach();
  const at::Tensor below = ((others < pair) * counts).sum(1);
  const at::Tensor ties = ((others == pair) * counts).sum(1);
  const at::Tensor above = count - below - ties;
  const at::Tensor auc =
      at::where(count > 0, (below + ties / 2) / count.clamp_min(1), at::full_like(count, 0.5));
  const at::Tensor rank = above + ties / 2 + 1;
  const auto hits = [&rank](int most) { return (rank <= most).sum().to(at::kFloat); };
  return at::stack({loss.sum(), auc.sum(), rank.reciprocal().sum(), hits(1), hits(3), hits(10)});
}

}  // namespace longhaul
