#include "tests/conformance/optimizer/onebit_vectors.h"

#include <memory>
#include <thread>

#include "ATen/Parallel.h"
#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "worker/collective/thread_communicator.h"
#include "worker/engine/momentum_exchange.h"
#include "worker/engine/subgroup_tensors.h"

namespace longhaul {
namespace {

ModelLayout OneMatrix(int64_t rows, int64_t columns) {
  UnitLayout unit{.name = "matrix", .elements = rows * columns};
  unit.tensors = {
      {.shape = {rows, columns}, .offset = 0, .elements = rows * columns, .decay = true}};
  return {.units = {unit}};
}

// As an engine with preset ddp does it: a rank's gradient is its part of a sum.
absl::StatusOr<std::vector<float>> RunRank(const OneBitVectors& v, Communicator& communicator) {
  const ModelLayout layout = OneMatrix(v.rows, v.columns);
  LH_ASSIGN_OR_RETURN(
      const std::unique_ptr<PoolExchange> exchange,
      PoolExchange::Create({.communicator = &communicator}, PartitionMap(), at::kCPU));
  const ShardPlan plan(layout, PartitionMap(), exchange->topology(), exchange->rank());
  std::vector<SubgroupShape> shapes;
  for (const UnitSubgroup& subgroup : plan.subgroups()) shapes.push_back(subgroup.shape);
  OneBitAdam optimizer(v.options, shapes);
  MomentumExchange momentum(layout, plan, *exchange, optimizer);
  const int64_t elements = v.rows * v.columns;
  std::vector<float> parameters(v.initial.begin(), v.initial.end()), out;
  for (int64_t step = 0; step < v.steps; ++step) {
    LH_RETURN_IF_ERROR(momentum.Decide());
    const absl::Span<const float> given =
        v.gradients.subspan((step * v.ranks + exchange->rank()) * elements, elements);
    std::vector<float> gradient(given.begin(), given.end());
    for (float& value : gradient) value /= static_cast<float>(v.ranks);
    const absl::Span<float> values = absl::MakeSpan(gradient);
    if (momentum.begun()) {
      LH_RETURN_IF_ERROR(momentum.Average(0, TensorOf(values, at::kCPU), 1));
    } else {
      LH_RETURN_IF_ERROR(communicator.AllReduceSum(values, {.timeout = absl::Minutes(1)}));
    }
    optimizer.Begin({.learning_rate = v.rate});
    optimizer.Submit({.parameters = absl::MakeSpan(parameters), .gradients = gradient});
    LH_RETURN_IF_ERROR(optimizer.Finish());
    out.insert(out.end(), parameters.begin(), parameters.end());
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<float>> RunOneBitVectors(const OneBitVectors& vectors) {
  const auto communicators = MakeThreadCommunicators(vectors.ranks);
  std::vector<absl::StatusOr<std::vector<float>>> results(vectors.ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < vectors.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      results[rank] = RunRank(vectors, *communicators[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    LH_RETURN_IF_ERROR(result.status());
    if (*result != *results[0]) return absl::InternalError("the ranks' parameters are not equal");
  }
  return results[0];
}

}  // namespace longhaul
