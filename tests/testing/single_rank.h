// The parts of an engine for a pool of one rank, for tests of passes over a model.
#pragma once

#include <memory>

#include "ATen/ops/from_blob.h"
#include "common/base/check.h"
#include "worker/engine/segmented_pass.h"

namespace longhaul {

struct SingleRank {
  SingleRank(const Model& model, at::ScalarType compute)
      : model(model),
        exchange(PoolExchange::Create({}, {}, at::kCPU).value()),
        plan(model.layout(), {}, exchange->topology(), 0),
        weights(model.layout(), plan, *exchange, at::kCPU, compute),
        queue(MakeImmediateQueue()) {}
  SingleRank(const SingleRank&) = delete;

  void Write(int unit, absl::Span<const float> values) {
    const auto elements = static_cast<int64_t>(values.size());
    weights.Master(unit, {0, elements})
        .copy_(at::from_blob(const_cast<float*>(values.data()), {elements}, at::kFloat));
    LH_CHECK(weights.Refresh(unit).ok(), "a single rank moves nothing");
  }
  FlatGradients MakeGradients() const { return FlatGradients(model.layout(), plan, at::kCPU); }

  absl::StatusOr<double> ForwardBackward(
      const StagedBatch& batch, const PassOptions& options, FlatGradients& gradients,
      const UnitGradientReady& ready = [](int) { return absl::OkStatus(); }) {
    WeightStream stream(model, weights, *queue, TrainingUses(model), 1);
    gradients.BeginStep();
    const auto loss = longhaul::ForwardBackward(model, batch, options, stream, gradients, ready);
    if (!loss.ok()) return loss.status();
    return loss->Total()[0];
  }
  double ForwardOnly(const StagedBatch& batch, FusedPass* fused = nullptr) {
    WeightStream stream(model, weights, *queue, EvaluationUses(model), 1);
    return longhaul::ForwardOnly(model, batch, stream, fused)->Total()[0];
  }

  const Model& model;
  std::unique_ptr<PoolExchange> exchange;
  ShardPlan plan;
  ComputeWeights weights;
  std::unique_ptr<StreamQueue> queue;
};

}  // namespace longhaul
