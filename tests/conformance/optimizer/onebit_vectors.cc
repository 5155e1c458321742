#include "tests/conformance/optimizer/onebit_vectors.h"

#include <iterator>
#include <memory>
#include <thread>

#include "ATen/Parallel.h"
#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "tests/testing/thread_communicator.h"
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

struct RankVectors {
  // After each step.
  std::vector<float> parameters;
  // Those of the steps after which all ranks must hold the same.
  std::vector<float> settled;
};

// As in an engine with preset ddp: a rank's gradient is its part of a sum.
absl::StatusOr<RankVectors> RunRank(const OneBitVectors& v, Communicator& communicator) {
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
  std::vector<float> parameters(v.initial.begin(), v.initial.end());
  RankVectors out;
  for (int64_t step = 0; step < v.steps; ++step) {
    LH_RETURN_IF_ERROR(momentum.Decide());
    const absl::Span<const float> given =
        v.gradients.subspan((step * v.ranks + exchange->rank()) * elements, elements);
    std::vector<float> gradient(given.begin(), given.end());
    for (float& value : gradient) value /= static_cast<float>(v.ranks);
    const absl::Span<float> values = absl::MakeSpan(gradient);
    const bool local = momentum.steps_locally();
    if (momentum.compresses() && !local) {
      LH_RETURN_IF_ERROR(momentum.Average(0, TensorOf(values, at::kCPU), 1));
    } else if (!local) {
      LH_RETURN_IF_ERROR(communicator.AllReduceSum(values, {.timeout = absl::Minutes(1)}));
    }
    const SubgroupUpdate update{.parameters = absl::MakeSpan(parameters), .gradients = gradient};
    optimizer.Begin(
        {.learning_rate = v.rate, .gradient_scale = local ? static_cast<double>(v.ranks) : 1});
    optimizer.Submit(update);
    LH_RETURN_IF_ERROR(optimizer.Finish());
    const bool settle = v.settle_every > 0 && (step + 1) % v.settle_every == 0;
    if (momentum.synchronization_due() || (momentum.unsettled() && settle)) {
      LH_RETURN_IF_ERROR(momentum.AverageSteps(0, TensorOf(values, at::kCPU)));
      momentum.SetSteps(update);
      momentum.Settled();
    }
    absl::c_copy(parameters, std::back_inserter(out.parameters));
    if (!momentum.unsettled()) absl::c_copy(parameters, std::back_inserter(out.settled));
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<float>> RunOneBitVectors(const OneBitVectors& vectors) {
  const auto communicators = MakeThreadCommunicators(vectors.ranks);
  std::vector<absl::StatusOr<RankVectors>> results(vectors.ranks);
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
    if (result->settled != results[0]->settled)
      return absl::InternalError("the ranks' parameters are not equal");
  }
  return results[0]->parameters;
}

}  // namespace longhaul
